# SPDX-License-Identifier: Apache-2.0
"""Compares the models of docs/start.md with the list of `sconce pull --suggest`."""
import json
import re
import subprocess

from blocks import TREE

ROW = re.compile(r"^\| (\d+) GB \| `sconce pull (\S+)` \| ([\d.]+) GB \| ([^|]+) \|$", re.M)


def test_the_model_of_each_size_of_memory_is_the_suggested_one(build):
    out = subprocess.run([str(build / "services/cli/sconce"), "pull", "--suggest", "--json", "chat"],
                         capture_output=True, check=True)
    models = json.loads(out.stdout)["models"]
    rows = ROW.findall((TREE / "docs/start.md").read_text())
    assert [int(row[0]) for row in rows] == [4, 8, 16, 32, 64]
    for memory, source, size, _ in rows:
        best = [m for m in models if m["memory"] <= int(memory) << 30][-1]
        assert source == best["source"] and float(size) == round(best["bytes"] / 1e9, 1), memory
