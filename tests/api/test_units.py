# SPDX-License-Identifier: Apache-2.0
"""Tests the unit files: systemd parses them without warnings, and they confine the services.

The exposure figures come from `systemd-analyze security`. The tests check them for each unit as
built, with the drop-ins that open GPUs, and for user units, which that tool treats as units of
root.
"""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT
from services import SERVICES, all_units

UNITS = all_units()
# The drop-in that `sconce setup gpu` writes: a device node, and the group that may open it; with
# NVIDIA's driver also memory that may become executable.
GPU = """[Service]
BindPaths=/dev/null
DeviceAllow=/dev/null rw
%sProcSubset=all
CacheDirectory=sconce
CacheDirectoryMode=0700
"""
NVIDIA = GPU + "MemoryDenyWriteExecute=no\n"
LIMITS = {GPU: {"system": 4, "user": 7}, NVIDIA: {"system": 4, "user": 8}}  # tenths


@pytest.fixture(params=["system", "user"])
def units(request, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    for name in UNITS:
        source = BUILD / "units" / request.param / name
        if not source.exists():
            pytest.skip("no units in %s" % BUILD)
        # Replaces the programs, because they are not installed yet.
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
    r = analyze(units, "verify", "--man=no", *("./" + n for n in UNITS))
    assert (r.returncode, r.stdout + r.stderr) == (0, "")


def test_no_unit_is_forgotten(units):
    built = {p.name for p in (BUILD / "units" / units[0]).glob("sconce*")}
    assert built == set(UNITS)


@pytest.mark.parametrize("gpu", [None, GPU, NVIDIA], ids=["cpu", "gpu", "nvidia"])
def test_units_are_confined(units, gpu):
    kind, path = units
    for row in SERVICES:
        unit = path / row.unit
        limit = LIMITS[gpu][kind] if gpu else row.exposure(kind == "user")
        if gpu and not row.needs_models:
            continue
        if gpu:
            unit.write_text(unit.read_text() +
                            gpu % ("SupplementaryGroups=render\n" if kind == "system" else ""))
        r = subprocess.run(["systemd-analyze", "security", "--offline=yes",
                            "--threshold=%d" % limit, str(unit)],
                           capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stdout[-400:] + r.stderr


def test_only_services_that_distinguish_users_have_no_user_namespace(units):
    kind, path = units
    for row in SERVICES:
        last = re.findall(r"(?m)^PrivateUsers=(\w+)$", (path / row.unit).read_text())[-1]
        assert last == ("no" if kind == "system" and row.sees_users else "yes"), row.unit


def test_each_socket_has_the_group_of_its_clients(units):
    """Only the gateway connects to the backends; only chat connects to the cache and keep
    services."""
    kind, path = units
    if kind == "user":
        pytest.skip("sockets of a user are that user's alone")
    groups = {"gateway": "sconce", "cache": "sconce-kv", "keep": "sconce-kept"}
    for row in SERVICES:
        text = (path / row.socket_units[0]).read_text()
        group = groups.get(row.name, "sconce-services")
        assert "\nSocketGroup=%s\n" % group in text and "\nSocketMode=0660\n" in text, row.name
        joined = re.findall(r"(?m)^SupplementaryGroups=(.*)$", (path / row.unit).read_text())
        assert joined == {"gateway": ["sconce-services"],
                          "chat": ["sconce-kv sconce-kept"]}.get(row.name, [])
    named = re.findall(r"(?m)^g (\S+) -$", (ROOT / "policy/sysusers.d/sconce.conf").read_text())
    assert set(named) == {"sconce", "sconce-services", "sconce-kv", "sconce-kept"}
    # The user of a unit with DynamicUser= has the unit's name. If a group already has this name,
    # the unit does not start.
    assert not set(named) & {"sconce-" + row.name for row in SERVICES}


def test_no_limit_closes_a_socket(units):
    kind, path = units
    for name in UNITS:
        text = (path / name).read_text()
        if name.endswith(".service"):
            assert "\nStartLimitIntervalSec=0\n" in text
            assert "RestartPreventExitStatus" not in text
        if name.endswith(".socket"):
            assert "\nTriggerLimitIntervalSec=0\n" in text


def test_the_catalog_explains_every_event():
    """The message IDs in log.h and in the journal catalog are the same, and journalctl can read
    it."""
    ids = set(re.findall(r'#define LOG_ID_\w+ +"([0-9a-f]{32})"',
                         (ROOT / "services/common/service/log.h").read_text()))
    text = (ROOT / "units/sconce.catalog").read_text()
    assert ids and ids == set(re.findall(r"(?m)^-- ([0-9a-f]{32})$", text))
