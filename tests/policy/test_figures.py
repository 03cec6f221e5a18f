# SPDX-License-Identifier: Apache-2.0
"""Checks that the figures in docs/security.md match the policies."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCONCE = pathlib.Path(os.environ.get("SCONCE_BUILD", ROOT / "build")) / "services/cli/sconce"
ROW = re.compile(r"^\| ([\w-]+) \| (\d+), (\d+) \| (\d+), (\d+) \| (\d+) \|$", re.M)


def explain(service, phase, arch):
    if not SCONCE.exists():
        pytest.skip("no build (set SCONCE_BUILD)")
    return json.loads(subprocess.run(
        [str(SCONCE), "policy", "explain", service, "--phase", phase, "--arch", arch, "--json"],
        capture_output=True, check=True).stdout)


def test_counts():
    rows = ROW.findall((ROOT / "docs/security.md").read_text())
    policies = {path.stem for path in (ROOT / "policy/seccomp").glob("*.yaml")}
    assert {row[0] for row in rows} == policies
    for service, *counts, limit in rows:
        told = [explain(service, phase, arch) for arch in ("x86-64", "arm64")
                for phase in ("start", "serve")]
        assert [t["allowed"] for t in told] == [int(c) for c in counts], service
        assert told[0]["limit"] == int(limit)
        assert told[0]["known"] == 450


def test_check_tells_every_policy():
    if not SCONCE.exists():
        pytest.skip("no build (set SCONCE_BUILD)")
    lines = subprocess.run([str(SCONCE), "policy", "check"], capture_output=True, check=True,
                           text=True).stdout
    told = {(name, arch): (int(start), int(serve)) for name, arch, start, serve in
            re.findall(r"(?m)^([\w-]+) +(\S+) +(\d+) calls to start, (\d+) of at most \d+", lines)}
    for name, *counts, _ in ROW.findall((ROOT / "docs/security.md").read_text()):
        counts = [int(c) for c in counts]
        assert told.pop((name, "x86-64")) == tuple(counts[:2])
        assert told.pop((name, "arm64")) == tuple(counts[2:])
    assert not told
