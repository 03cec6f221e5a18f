# SPDX-License-Identifier: Apache-2.0
"""Imports Python modules that are not part of Python, or says which package has them."""
import importlib
import os
import shutil
import sys


def fail(text):
    print("%s: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    sys.exit(2)


def module(name, debian=None, pypi=None):
    """Returns the module @name. If it is missing, names its Debian package @debian or its package
    @pypi on PyPI, and exits with 2."""
    try:
        return importlib.import_module(name)
    except ImportError:
        ways = ["the Debian package " + debian] if debian else []
        if pypi:
            ways.append("%s from PyPI (%s -m pip install %s)" % (pypi, sys.executable, pypi))
        fail("there is no Python module %s: install %s" % (name, ", or ".join(ways)))


def program(name, debian):
    """Returns the path of the program @name. If it is missing, names its Debian package, and exits
    with 2."""
    path = shutil.which(name)
    if not path:
        fail("there is no program %s: install the Debian package %s" % (name, debian))
    return path
