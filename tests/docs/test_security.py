# SPDX-License-Identifier: Apache-2.0
"""The numbers of docs/security.md are those of the policies."""
import re

from blocks import TREE


def test_counts_of_system_calls(user):
    text = (TREE / "docs/security.md").read_text()
    written = {}
    for name, x86, arm, limit in re.findall(
            r"^\| (\w+) \| (\d+, \d+) \| (\d+, \d+) \| (\d+) \|$", text, re.M):
        written[name, "x86-64"] = (*map(int, x86.split(", ")), int(limit))
        written[name, "arm64"] = (*map(int, arm.split(", ")), int(limit))
    out = user.run(["sconce", "policy", "check"]).stdout
    there = {(name, arch): (int(start), int(serve), int(limit)) for name, arch, start, serve, limit
             in re.findall(r"^(\w+) +(\S+) +(\d+) calls to start, (\d+) of at most (\d+)", out, re.M)}
    assert there and written == there
