# SPDX-License-Identifier: Apache-2.0
"""How tests run side by side: which files begin first, and which tests have the machine alone.

tests/run.sh gives the files of a folder to several processes (pytest-xdist) and names a directory in
SCONCE_TURNS, where all that run tests agree on whose turn it is. Without it nothing waits.
"""
import contextlib
import fcntl
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
import behind  # noqa: E402


def pytest_configure(config):
    # Newer versions of pytest-xdist order files by how many tests they have, which says little.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """Files marked `long` first; the order within a file stays. Tests marked `full` skip."""
    for item in items:
        if item.get_closest_marker("full") and not os.environ.get("SCONCE_TEST_FULL"):
            item.add_marker(pytest.mark.skip(reason="part of `tests/run.sh full` (SCONCE_TEST_FULL)"))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@contextlib.contextmanager
def turn(directory, alone):
    """Within this, a test beside which others run, or one that is alone.

    Who wants to be alone keeps the gate while it waits for those that run, so that nobody new comes
    in before it.
    """
    with open(os.path.join(directory, "gate"), "ab") as gate, \
            open(os.path.join(directory, "running"), "ab") as running:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    alone = item.get_closest_marker("alone") is not None
    directory = os.environ.get("SCONCE_TURNS")
    with contextlib.ExitStack() as stack:
        if directory:
            stack.enter_context(turn(directory, alone))
        if alone:
            stack.enter_context(behind.paused())
        yield
