# SPDX-License-Identifier: Apache-2.0
"""Parses `sconce --help`: the verbs, and the options of each verb. Reads the values of options in
the sources."""
import re
import shutil

from blocks import TREE


def found_shell(name):
    return shutil.which(name) is not None


def verbs(user):
    out = user.run(["sconce", "--help"]).stdout
    return re.findall(r"^  ([a-z]+) {2,}\S", out, re.M)


def options(user, verb):
    """Returns the options as they are typed ("-m" and "--model"), without -h and --help."""
    out = user.run(["sconce", verb, "--help"]).stdout
    found = set()
    for line in out.split("\n"):
        # A line that begins with options, or with arguments and options in brackets.
        head = re.match(r"  (-.*|\w.*)", line)
        if head and not line.startswith("   "):
            text = re.split(r" {2,}", head.group(1))[0]
            found.update(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", text))
    return found - {"-h", "--help"}


def table(path, name):
    """Returns the strings of an array in a C file, or the first string of each of its rows."""
    text = re.search(r"\b%s\[\w*\] = \{(.*?)\};" % name, (TREE / path).read_text(), re.S)[1]
    return set(re.findall(r'\{[^{}"]*"([^"]+)"', text) or re.findall(r'"([^"]+)"', text))


def option_values():
    """Returns, for each option with a fixed set of values, its values and the verbs that have
    it."""
    return {
        "--isa": (["run", "bench"], table("libinfer/core/cpu.c", "rungs")),
        "--kv-type": (["run", "bench"],
                      table("services/common/config/kv-type.c", "names") - {"auto"} |
                      {name + "+recent" for name in
                       table("services/common/config/kv-type.c", "recent_names")}),
        "--device": (["run", "bench", "serve"], {"auto", "cpu", "vulkan"}),
        "--format": (["transcribe"], table("services/cli/verbs/transcribe.c", "rows") - {"text"}),
        "--rights": (["setup"], table("services/common/config/rights.c", "rights_rows")),
        "--arch": (["policy"], table("services/common/confine/policy-names.c", "arches")),
        "--phase": (["policy"], {"start", "serve"}),
    }
