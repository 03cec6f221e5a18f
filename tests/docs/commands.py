# SPDX-License-Identifier: Apache-2.0
"""Parses `sconce --help`: verbs, and the options of each."""
import re
import shutil


def found_shell(name):
    return shutil.which(name) is not None


def verbs(user):
    out = user.run(["sconce", "--help"]).stdout
    return re.findall(r"^  ([a-z]+) {2,}\S", out, re.M)


def options(user, verb):
    """Options as they are typed, "-m" and "--model"; -h and --help left out."""
    out = user.run(["sconce", verb, "--help"]).stdout
    found = set()
    for line in out.split("\n"):
        # A line that begins with options, or with arguments and options in brackets.
        head = re.match(r"  (-.*|\w.*)", line)
        if head and not line.startswith("   "):
            text = re.split(r" {2,}", head.group(1))[0]
            found.update(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", text))
    return found - {"-h", "--help"}
