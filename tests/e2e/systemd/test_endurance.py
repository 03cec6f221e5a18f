# SPDX-License-Identifier: Apache-2.0
"""Tests crashes, idle exits and broken programs for a long time: no socket unit fails, clients get
errors, and a crash loop costs little CPU time.

SCONCE_ENDURANCE is the number of seconds of each scenario, and the number of kills (default: 8).
"""
import os
import random
import time

import pytest

from client import Crowd, ask, chat_body, get, wake
from services import SERVICES

SECONDS = float(os.environ.get("SCONCE_ENDURANCE", "8"))
UNITS = [row.unit for row in SERVICES]
IDLE = "".join("%s:\n  idle_timeout: 100ms\n" % row.name for row in SERVICES)
BROKEN = "[Service]\nExecStart=\nExecStart=/bin/false\n"


def sockets_live(machine):
    for row in SERVICES:
        assert machine.show(row.socket_units[0], "Result") == "success"
        assert machine.is_active(row.socket_units[0])


def cpu_seconds(machine):
    """Returns the processor time of the machine's systemd, including its ended children, and of its
    journal."""
    used = 0
    for pid, _ in machine.processes():
        try:
            name, rest = open("/proc/%d/stat" % pid).read().rsplit(")", 1)
        except OSError:
            continue
        fields = rest.split()
        if pid == machine.leader:
            used += sum(map(int, fields[11:15]))
        elif "systemd-journal" in name:
            used += sum(map(int, fields[11:13]))
    return used / os.sysconf("SC_CLK_TCK")


def test_kill_after_kill(machine):
    """A new process answers each request that begins after a kill."""
    pids = set()
    for i in range(int(SECONDS)):
        row = SERVICES[i % len(SERVICES)]
        assert ask(machine, chat_body(1)).status == 200
        pids.add((row.name, wake(machine, row)))
        machine.systemctl("kill", "--signal=SIGKILL", row.unit)
        began = time.monotonic()
        # The gateway may have sent the request to the process that was just killed.
        machine.wait(lambda: ask(machine, chat_body(1)).status == 200, "an answer", 15)
        assert time.monotonic() - began < 10
    assert len(pids) == int(SECONDS)
    sockets_live(machine)


def test_idle_exits_under_load(machine, configure):
    configure(IDLE)
    rng = random.Random(7)

    def work():
        answer = ask(machine, chat_body(rng.choice([1, 4]), stream=True)) if rng.random() < 0.7 \
            else get(machine, "/v1/models")
        ok = answer.whole_stream if answer.data.startswith(b"data:") else answer.status == 200
        return None if ok else repr(answer)

    # Each client pauses for about the idle timeout of the services.
    with Crowd(work, 2, lambda: rng.random() * 0.5) as crowd:
        time.sleep(SECONDS)
        n, wrong = crowd.stop()
    print("%d requests in %.0f s, none failed" % (n, SECONDS))
    assert wrong == [] and n > SECONDS
    sockets_live(machine)


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_a_broken_program_costs_little_and_is_mended(machine, drop_in, row):
    broken = drop_in(row.unit, BROKEN)
    told = []

    def work():
        try:
            told.append(ask(machine, chat_body(1), timeout=SECONDS + 60).status)
        except OSError as e:
            return repr(e)
        return None

    before = cpu_seconds(machine)
    with Crowd(work, 4, lambda: 1) as crowd:
        time.sleep(SECONDS)
        share = (cpu_seconds(machine) - before) / SECONDS
        sockets_live(machine)
        broken.remove()
        began = time.monotonic()
        machine.wait(lambda: 200 in told, "the first answer", 45)
        after = time.monotonic() - began
        n, wrong = crowd.stop()
    print("%s: %.1f %% of a processor; %s; the first answer %.1f s after the repair" % (
        row.name, share * 100, {s: told.count(s) for s in set(told)}, after))
    assert share < 0.15
    # A gateway that cannot start answers nothing, but waiting requests are answered in the end.
    assert wrong == [] and set(told) <= {200, 503}
    assert ask(machine).status == 200
