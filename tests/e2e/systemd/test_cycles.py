# SPDX-License-Identifier: Apache-2.0
"""Tests services that exit when idle, under load: no request is lost, and no socket unit fails."""
import random
import time

from client import Crowd, ask, chat_body, get
from services import SERVICES

UNITS = [row.unit for row in SERVICES if row.answers]
IDLE = "".join("%s:\n  idle_timeout: %%s\n" % row.name for row in SERVICES)


def starts(machine, cursor):
    """Returns how often each service on the path of chat requests was started since @cursor."""
    entries = machine.journal(cursor)
    return {unit: sum(e.get("UNIT") == unit and e["MESSAGE"].startswith("Started ")
                      for e in entries) for unit in UNITS}


def one_request(machine, rng):
    """Sends a request of a random kind; returns None, or what is wrong with the answer."""
    kind = rng.random()
    if kind < 0.4:
        answer = ask(machine, chat_body(rng.choice([1, 4, 16]), stream=True))
        return None if answer.whole_stream else repr(answer)
    if kind < 0.8:
        answer = ask(machine, chat_body(rng.choice([1, 4, 16])))
    else:
        answer = get(machine, rng.choice(["/v1/models", "/health", "/health?deep=1"]))
    return None if answer.status == 200 else repr(answer)


def test_fifty_idle_exits_under_load_lose_no_request(machine, configure):
    configure(IDLE % (("200ms",) * len(SERVICES)))
    rng = random.Random(3)
    cursor = machine.cursor()
    n, wrong, n_rounds = 0, [], 0
    end = time.monotonic() + 150
    while time.monotonic() < end:
        # A burst of four clients is followed by silence of about the idle timeout. So the next
        # connection comes shortly before, during or after the exit.
        crowd = Crowd(lambda: one_request(machine, rng), 4, lambda: rng.random() * 0.05)
        time.sleep(rng.random() * 0.1)
        done, bad = crowd.stop()
        n, wrong, n_rounds = n + done, wrong + bad, n_rounds + 1
        assert wrong == []
        time.sleep(0.1 + rng.random() * 0.5)
        if n_rounds % 20 == 0 and min(starts(machine, cursor).values()) >= 50:
            break
    counts = starts(machine, cursor)
    print("%d requests, %s starts, none failed" % (n, counts))
    assert min(counts.values()) >= 50 and n > 200, (n, counts)
    for row in SERVICES:
        assert machine.show(row.unit, "NRestarts") == "0"


def test_heavy_idle_cycling_trips_no_limit(machine, configure):
    """Causes far more starts than systemd's own limits allow; sockets stay usable, and no client
    fails."""
    configure(IDLE % (("10ms",) * len(SERVICES)))
    rng = random.Random(5)
    cursor = machine.cursor()
    began = time.monotonic()
    with Crowd(lambda: one_request(machine, rng), 1, lambda: rng.random() * 0.06) as crowd:
        time.sleep(8)
        while min(starts(machine, cursor).values()) <= 20 and time.monotonic() - began < 40:
            time.sleep(1)
        n, wrong = crowd.stop()
    counts = starts(machine, cursor)
    print("%d requests, %s starts in %.0f s, none failed" % (n, counts, time.monotonic() - began))
    assert wrong == [] and min(counts.values()) > 20, (n, counts)
    for row in SERVICES:
        for socket in row.socket_units:
            assert machine.show(socket, "Result") == "success"
    assert ask(machine).status == 200


def test_idle_services_leave_and_the_sockets_stay(machine, configure):
    configure(IDLE % (("300ms",) * len(SERVICES)))
    assert ask(machine).status == 200
    # The idle time of the cache begins when the last of the other services has exited.
    machine.wait_inactive(*[row.unit for row in SERVICES], timeout=15)
    assert machine.programs() == []
    for row in SERVICES:
        assert machine.show(row.unit, "Result") == "success"
        assert machine.is_active(row.socket_units[0])
    assert ask(machine).status == 200
