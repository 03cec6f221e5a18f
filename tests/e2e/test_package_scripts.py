# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts of the RPM and Arch packages with programs that only note how they are called."""
import os
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


def owner_script(name):
    """Returns the part of a package's script that changes owners in the store, as it runs there: with -e on
    Debian and Arch."""
    text = (ROOT / "packaging" / name).read_text().replace("%{_sharedstatedir}", "/var/lib")
    found = re.search(r"^(if [^\n]*\n)? *find [^\n]*-execdir chown .*?(?=^ *systemctl|^%|^$)", text, re.M | re.S)
    return ("" if "rpm" in name else "set -e\n") + found[0] + "\necho done\n"


OWNER_SCRIPTS = ["debian/sconce.postinst", "rpm/sconce.spec.in", "arch/sconce.install.in"]


def run_owner_script(name, store, path="/usr/bin:/bin"):
    """Runs the part of the script on the store; returns what it writes to standard error."""
    script = owner_script(name).replace("/var/lib/sconce/models", str(store))
    done = subprocess.run(["sh", "-c", script.replace("sconce-store:sconce-store", "4321:4321"), "sh", "configure"],
                          check=True, env={"PATH": path}, capture_output=True, text=True)
    assert done.stdout == "done\n"
    return done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("name", OWNER_SCRIPTS)
def test_an_upgrade_gives_the_store_to_its_service(tmp_path, name, linked):
    store, outside = tmp_path / "models", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("")
    for path in (".lock", ".blobs/sha256-1", ".incoming/job/fetch/a.part", "org/name/weights.gguf"):
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).write_text("")
    (store / "link").symlink_to(outside)
    (store / "mine").write_text("")
    os.chown(store / "mine", 1234, 1234)
    (tmp_path / "elsewhere").symlink_to(store)
    assert run_owner_script(name, tmp_path / "elsewhere" if linked else store) == ""
    owners = {path: path.lstat().st_uid for path in (store, *store.rglob("*"))}
    assert owners.pop(store / "mine") == 1234
    assert set(owners.values()) == {4321} and len(owners) == 12
    assert outside.stat().st_uid == 0 and (outside / "file").stat().st_uid == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.parametrize("name", OWNER_SCRIPTS)
def test_an_upgrade_goes_on_if_an_owner_cannot_change(tmp_path, name):
    store = tmp_path / "models"
    store.mkdir()
    (tmp_path / "chown").write_text("#!/bin/sh\necho chown: no >&2\nexit 1\n")
    (tmp_path / "chown").chmod(0o755)
    told = run_owner_script(name, store, f"{tmp_path}:/usr/bin:/bin")
    assert "chown: no" in told and f"not all files below {store} could be given to sconce-store" in told


def test_the_target_wants_the_socket_of_each_service():
    for path in ("system", "user"):
        text = table.fill((ROOT / "units" / path / "sconce.target.in").read_text())
        wants = re.search("^Wants=(.*)", text, re.M)[1].split()
        assert wants == table.words("sockets")
