# SPDX-License-Identifier: Apache-2.0
"""Tests services that crash, hang or cannot start: one request fails, and the next request
succeeds."""
import os
import signal
import time

import pytest

from client import Stream, ask, long_body
from services import SERVICES

ROWS = pytest.mark.parametrize("row", [row for row in SERVICES if row.answers],
                               ids=lambda row: row.name)


@ROWS
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_a_crash_is_one_failed_request(machine, row, name):
    assert ask(machine).status == 200
    before = int(machine.show(row.unit, "NRestarts"))
    cursor = machine.cursor()
    stream = Stream(machine, long_body(2000, stream=True)).first()
    os.kill(machine.host_pid(row.unit), getattr(signal, name))
    data = stream.rest()
    assert not stream.whole
    if row.name != "gateway":
        # The gateway survives and ends the stream with an error event.
        assert b'"error"' in data and b'"service_failed"' in data
    answer = ask(machine)
    assert answer.status == 200, answer
    messages = [e["MESSAGE"] for e in machine.journal(cursor, UNIT=row.unit)]
    assert any("status=%d" % getattr(signal, name) in m for m in messages), messages
    assert int(machine.show(row.unit, "NRestarts")) <= before + 1
    others = [other for other in SERVICES if other is not row]
    for other in others:
        assert machine.show(other.unit, "Result") == "success"


@ROWS
def test_an_unanswered_request_fails_alone(machine, row):
    """The service crashes before the answer has begun, and the client gets an error."""
    import threading
    assert ask(machine).status == 200
    got = []

    def client():
        try:
            got.append(ask(machine, long_body(2000, n=64, temperature=1)).status)
        except OSError as e:
            got.append(e)
    thread = threading.Thread(target=client)
    thread.start()
    # If an idle connection that the gateway reuses fails within a second, the gateway assumes that
    # the connection was already dead and sends the request again. This test kills chat later, so
    # that the request counts as failed.
    time.sleep(1.3)
    assert got == [], "the request was answered too soon for this test"
    os.kill(machine.host_pid(row.unit), signal.SIGKILL)
    thread.join(30)
    assert len(got) == 1
    if row.name == "gateway":
        assert isinstance(got[0], OSError), got
    else:
        assert got[0] == 502
    assert ask(machine).status == 200


@ROWS
def test_the_watchdog_ends_a_service_that_hangs(machine, row, drop_in):
    drop_in(row.unit, "[Service]\nWatchdogSec=1\n")
    assert ask(machine).status == 200
    pid = machine.host_pid(row.unit)
    cursor = machine.cursor()
    os.kill(pid, signal.SIGSTOP)
    machine.wait(lambda: not os.path.exists("/proc/%d" % pid), "the end of the service", 20)
    answer = ask(machine)
    assert answer.status == 200, answer
    assert any("Watchdog timeout" in e["MESSAGE"]
               for e in machine.journal(cursor, UNIT=row.unit))


@ROWS
def test_a_service_that_is_well_keeps_its_watchdog_quiet(machine, row, drop_in):
    drop_in(row.unit, "[Service]\nWatchdogSec=1\n")
    assert ask(machine).status == 200
    pid = machine.host_pid(row.unit)
    for _ in range(3):
        assert ask(machine, long_body(300)).status == 200
        time.sleep(0.8)
    assert machine.host_pid(row.unit) == pid


CRASH = "[Service]\nExecStart=\nExecStart=/usr/libexec/sconce/sconce-chat --no-such-option\n"


def test_a_service_that_never_starts_is_reported_and_mended(machine, drop_in):
    """Chat crashes at each start: clients get 503, the gateway stays up, and no socket unit
    fails."""
    crash = drop_in("sconce-chat.service", CRASH)
    began = time.monotonic()
    answer = ask(machine, timeout=90)
    assert answer.status == 503, answer
    assert "chat service" in answer.json["error"]["message"]
    print("503 after %.1f s" % (time.monotonic() - began))
    assert machine.show("sconce-chat.socket", "Result") == "success"
    assert machine.is_active("sconce-gateway.service")
    crash.remove()
    machine.wait(lambda: ask(machine, timeout=90).status == 200, "an answer", 60)


def test_a_crash_loop_costs_little_processor_time(machine, drop_in):
    drop_in("sconce-chat.service", CRASH)
    cursor = machine.cursor()
    with machine.connect("chat", timeout=10) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(6)
    tries = sum("Main process exited" in e["MESSAGE"] for e in
                machine.journal(cursor, UNIT="sconce-chat.service"))
    assert 2 <= tries <= 8, tries


BROKEN = "chat:\n  threads: many\n"


def test_a_broken_configuration_is_answered_and_mended(machine, configure):
    """No manual restart is needed: the service answers each request with the error, and exits
    soon."""
    configure(BROKEN, restart=False)
    answer = ask(machine, timeout=30)
    assert answer.status == 503, answer
    text = str(answer.json)
    assert "90-test.yaml" in text and "threads" in text and "2:" in text, text
    for row in SERVICES:
        assert machine.show(row.unit, "Result") == "success"
    entries = machine.journal(_COMM="sconce-gateway", PRIORITY="3")
    assert any("90-test.yaml" in e["MESSAGE"] for e in entries)
    configure("", restart=False)
    machine.wait(lambda: ask(machine, timeout=30).status == 200, "an answer", 30)


def test_a_configuration_that_breaks_while_services_run(machine, configure):
    assert ask(machine).status == 200
    configure(BROKEN, restart=False)
    # A running service keeps its configuration; after a restart it reports the error.
    assert ask(machine).status == 200
    machine.systemctl("restart", *(row.unit for row in SERVICES))
    assert ask(machine, timeout=30).status == 503
    configure("", restart=False)
    machine.wait(lambda: ask(machine, timeout=30).status == 200, "an answer", 30)
