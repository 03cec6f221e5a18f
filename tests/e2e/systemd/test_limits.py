# SPDX-License-Identifier: Apache-2.0
"""Tests resource limits, and the exposure that systemd computes for the running units."""
import os
import re

import pytest

from client import ask, wake
from services import SERVICES

ROWS = pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
MANAGERS = pytest.mark.parametrize("user", [None, "ada"], ids=["system", "user"])


@pytest.fixture
def running(machine, user):
    if user:
        if machine.run(["id", "-u", user], check=False).returncode:
            machine.add_user(user)
        machine.systemctl("start", "sconce.target", user=user)
    assert ask(machine, user=user).status == 200
    return machine


@ROWS
@MANAGERS
def test_exposure(running, row, user):
    limit = row.exposure(bool(user))
    r = running.run(["systemd-analyze", *(["--user"] if user else []), "security", "--no-pager",
                     "--threshold=%d" % limit, row.unit], user=user, check=False)
    last = re.search(r"Overall exposure level for \S+: ([\d.]+)", r.stdout)
    assert last, r
    print("%s %s: exposure %s" % ("user" if user else "system", row.unit, last.group(1)))
    assert r.returncode == 0 and float(last.group(1)) <= limit / 10


@ROWS
@MANAGERS
def test_limits_stand_in_the_unit(running, row, user):
    wake(running, row, user)
    unlimited = ("infinity", "18446744073709551615", "")
    for name in ("TasksMax", "MemoryMax", "LimitNOFILE", "IOWeight", "CPUWeight"):
        assert running.show(row.unit, name, user) not in unlimited + ("[not set]",), name
    assert running.show("sconce.slice", "TasksMax", user) not in unlimited
    assert running.show(row.unit, "Slice", user) == "sconce.slice"
    assert int(running.show(row.unit, "WatchdogUSec", user).rstrip("min s") or 0) > 0


@ROWS
@MANAGERS
def test_limits_stand_in_the_cgroup_where_it_has_them(running, row, user):
    wake(running, row, user)
    group = running.path("/sys/fs/cgroup" + running.show(row.unit, "ControlGroup", user))
    assert str(running.show(row.unit, "MainPID", user)) in \
        running.run(["cat", "/sys/fs/cgroup%s/cgroup.procs" % running.show(
            row.unit, "ControlGroup", user)]).stdout.split()
    files = {"pids.max": "TasksMax", "memory.max": "MemoryMax"}
    present = {name: unit for name, unit in files.items() if (group / name).exists()}
    if not present:
        pytest.skip("containers on this system have no cgroup controllers")
    for name, unit in present.items():
        value = (group / name).read_text().strip()
        assert value == running.show(row.unit, unit, user) and value != "max", name


@ROWS
@MANAGERS
def test_descriptors_and_core_files_are_limited(running, row, user):
    wake(running, row, user)
    running.wait(lambda: running.is_active(row.unit, user), "the end of the service's start", 20)
    pid = running.host_pid(row.unit, user)
    limits = open("/proc/%d/limits" % pid).read()
    files = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits)
    assert 1024 <= int(files.group(1)) <= 65536
    # A core dump would contain users' text. If only root may read the memory of a process, the
    # kernel writes no core dump of it.
    assert os.stat("/proc/%d/mem" % pid).st_uid == 0
    assert open("/proc/%d/oom_score_adj" % pid).read().strip() != "0"
