# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts of the RPM and Arch packages with programs that only note how they are called."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from services import table  # noqa: E402

SPEC = table.fill((ROOT / "packaging/rpm/sconce.spec.in").read_text())
NOTE = '#!/bin/sh\necho "${0##*/} $*" >>"$CALLS"\n'
IS_ACTIVE = '[ "$1" != is-active ] || exit %d\n'


def rpm_script(head):
    """Returns a script of the spec file without macros."""
    found = re.search(rf"^%{head}\n(.*?)^%", SPEC, re.M | re.S)
    return "set -e\n" + found[1]


def arch_script(name):
    path = ROOT / "packaging/arch" / name
    return "set -e\n" + table.fill(path.read_text()) + "post_upgrade\n"


SCRIPTS = {
    "rpm": (rpm_script("posttrans"), "sconce.target"),
    "rpm-audio": (rpm_script("posttrans audio"), "sconce-audio.socket"),
    "arch": (arch_script("sconce.install.in"), "sconce.target"),
    "arch-audio": (arch_script("sconce-audio.install"), None),
}


def calls(tmp_path, script, is_active):
    """Runs a script; returns the calls of systemctl other than questions."""
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles"):
        program = tmp_path / name
        program.write_text(NOTE + IS_ACTIVE % (0 if is_active else 3))
        program.chmod(0o755)
    log = tmp_path / "calls"
    log.write_text("")
    script = script.replace("/run/systemd/system", str(tmp_path))
    subprocess.run(["sh", "-c", script], check=True,
                   env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(log)})
    lines = log.read_text().splitlines()
    return [line.removeprefix("systemctl ") for line in lines
            if line.startswith("systemctl ") and "is-active" not in line]


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_upgrade_opens_new_sockets_only_if_sconce_runs(tmp_path, name):
    script, unit = SCRIPTS[name]
    made = calls(tmp_path, script, is_active=True)
    if unit:
        assert made.index("daemon-reload") < made.index("start " + unit)
    made = calls(tmp_path, script, is_active=False)
    assert not [call for call in made if call.startswith("start ")]
    assert not [call for call in made if re.search(r"\brestart\b.*socket", call)]


def test_the_target_wants_the_socket_of_each_service():
    for path in ("system", "user"):
        text = table.fill((ROOT / "units" / path / "sconce.target.in").read_text())
        wants = re.search("^Wants=(.*)", text, re.M)[1].split()
        assert wants == table.words("sockets")
