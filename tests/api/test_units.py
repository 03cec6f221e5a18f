# SPDX-License-Identifier: Apache-2.0
"""Units are what systemd can read without a complaint, and their walls stand."""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD

NAMES = ["sconce-gateway.socket", "sconce-gateway.service", "sconce-chat.socket",
         "sconce-chat.service", "sconce.target"]


@pytest.fixture(params=["system", "user"])
def units(request, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    names = NAMES + (["sconce-gateway-tcp.socket"] if request.param == "user" else [])
    for name in names:
        source = BUILD / "units" / request.param / name
        if not source.exists():
            pytest.skip("no units in %s" % BUILD)
        # The binaries are not installed yet.
        text = re.sub(r"(?m)^ExecStart=.*", "ExecStart=/bin/true", source.read_text())
        (tmp_path / name).write_text(text)
    return request.param, tmp_path


def analyze(units, *args):
    kind, path = units
    (path / "run/systemd").mkdir(parents=True, exist_ok=True)
    return subprocess.run(["systemd-analyze", *(["--user"] if kind == "user" else []), *args],
                          cwd=path, capture_output=True, text=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": "%s:" % path,
                               "XDG_RUNTIME_DIR": str(path / "run"), "HOME": str(path)})


def test_units_verify(units):
    r = analyze(units, "verify", "--man=no", *("./" + n for n in NAMES))
    assert (r.returncode, r.stdout + r.stderr) == (0, "")


def test_units_are_confined(units):
    limit = {"system": "3", "user": "8"}[units[0]]
    for name in ("sconce-gateway.service", "sconce-chat.service"):
        r = subprocess.run(["systemd-analyze", "security", "--offline=yes",
                            "--threshold=" + limit, str(units[1] / name)],
                           capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stdout[-400:] + r.stderr
