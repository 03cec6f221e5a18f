# SPDX-License-Identifier: Apache-2.0
"""Tests stopping and restarting while requests run: answers complete, and no request fails."""
import concurrent.futures
import json
import random
import time

import pytest

from client import Crowd, Stream, ask, chat_body, long_body
from services import SERVICES

UNITS = [row.unit for row in SERVICES]


@pytest.mark.parametrize("units", [["sconce.target"], UNITS, ["sconce-chat.service"],
                                   ["sconce-gateway.service"]], ids=lambda u: "+".join(u))
def test_stop_lets_streams_finish(machine, units):
    assert ask(machine).status == 200
    streams = [Stream(machine, long_body(1500, stream=True)).first() for _ in range(3)]
    machine.systemctl("stop", "--no-block", *units)
    for stream in streams:
        data = stream.rest()
        assert stream.whole, data[-600:]
        last = [json.loads(line[6:]) for line in data.splitlines()
                if line.startswith(b"data: {")]
        assert last[-1]["choices"][0]["finish_reason"] == "length"
    machine.wait_inactive(*[u for u in units if u.endswith(".service")] or UNITS)
    for unit in UNITS:
        assert machine.show(unit, "Result") == "success"
    machine.systemctl("start", "sconce.target")
    assert ask(machine).status == 200


def test_stopped_endpoints_are_closed_and_started_endpoints_open(machine):
    assert ask(machine).status == 200
    machine.systemctl("stop", "sconce.target")
    machine.wait_inactive(*UNITS)
    assert machine.programs() == []
    with pytest.raises(OSError):
        machine.connect().close()
    assert " /run/sconce/" not in machine.run("ss -xl").stdout
    machine.systemctl("start", "sconce.target")
    assert machine.programs() == []
    assert ask(machine).status == 200


def test_the_limit_ends_requests_that_take_too_long(machine, drop_in):
    row = SERVICES[1]
    drop_in(row.unit, "[Service]\nExecStart=\nExecStart=%s --drain-timeout 0.5\n" % row.binary)
    assert ask(machine).status == 200
    stream = Stream(machine, long_body(2000, n=8, temperature=1, stream=True)).first()
    # The client must read, because the last tokens would fit into the socket buffers.
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        rest = reader.submit(stream.rest)
        began = time.monotonic()
        machine.systemctl("stop", row.unit)
        took = time.monotonic() - began
        data = rest.result()
    assert 0.3 < took < 10, took
    assert not stream.whole and b'"shutting_down"' in data
    assert machine.show(row.unit, "Result") == "success"


@pytest.mark.parametrize("units", [UNITS, ["sconce-chat.service"], ["sconce-gateway.service"]],
                         ids=lambda u: "+".join(u))
def test_restarts_under_load_lose_no_request(machine, units):
    rng = random.Random(11)

    def work():
        body = chat_body(rng.choice([1, 8, 64]), stream=rng.random() < 0.5)
        answer = ask(machine, body)
        good = answer.whole_stream if body["stream"] else answer.status == 200
        return None if good else repr(answer)

    with Crowd(work, 6) as crowd:
        for _ in range(8):
            time.sleep(rng.random() * 0.3)
            machine.systemctl("restart", *units)
        n, wrong = crowd.stop()
    print("%d requests through 8 restarts of %s, none failed" % (n, " ".join(units)))
    assert wrong == [] and n > 30


def test_reload_of_systemd_disturbs_nothing(machine):
    stream = Stream(machine, long_body(1500, stream=True)).first()
    machine.systemctl("daemon-reload")
    machine.systemctl("daemon-reexec")
    stream.rest()
    assert stream.whole
    assert ask(machine).status == 200
