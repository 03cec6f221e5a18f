# SPDX-License-Identifier: Apache-2.0
"""Tests a backend that hangs: waiting clients get an error. A slow backend is not interrupted."""
import http.client
import json
import os
import stat
import threading
import time

import pytest

from activator import listen_unix
from conftest import SLOW, own_metrics

PROBE = 0.3  # seconds between probes
REQUEST = {"model": "m", "prompt": "x"}


class Fake:
    """A fake chat service: `answer(path)` returns the seconds until a 200, or None for no
    answer."""

    def __init__(self, path, answer, max_accepted=1 << 30):
        self.listener = listen_unix(path)
        self.answer = answer
        self.paths = []
        self.open = []
        self.max_accepted = max_accepted
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for _ in range(self.max_accepted):
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(s)
            threading.Thread(target=self._serve, args=(s,), daemon=True).start()

    def _serve(self, s):
        data = b""
        try:
            while True:
                piece = s.recv(65536)
                if not piece:
                    return
                data += piece
                if b"\r\n\r\n" not in data:
                    continue
                path = data.split(b" ")[1].decode()
                data = b""
                self.paths.append(path)
                wait = self.answer(path)
                if wait is None:
                    continue
                time.sleep(wait)
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                          b"Content-Length: 2\r\n\r\n{}")
        except OSError:
            pass

    def close(self):
        self.listener.close()
        for s in self.open:
            s.close()


@pytest.fixture
def make_fake(make_suite):
    fakes = []

    def make(answer, **kw):
        suite = make_suite(gateway="  probe_interval: %dms\n" % (PROBE * 1000 * SLOW))
        path = os.path.join(suite.dir, "fake.sock")
        fakes.append(Fake(path, answer, **kw))
        suite.gateway.argv[suite.gateway.argv.index("--chat-socket") + 1] = path
        return suite, fakes[-1]

    yield make
    for fake in fakes:
        fake.close()


def post(suite):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
    start = time.monotonic()
    c.request("POST", "/v1/completions", json.dumps(REQUEST).encode())
    r = c.getresponse()
    body = json.loads(r.read())
    return r.status, body, (time.monotonic() - start) / SLOW, r.headers


def test_a_service_that_accepts_nothing_is_given_up(make_fake):
    suite, fake = make_fake(lambda path: None, max_accepted=0)
    fake.thread.join()
    status, body, seconds, headers = post(suite)
    assert status == 503 and body["error"]["code"] == "service_down"
    assert headers["retry-after"] == "5"
    assert 3 * PROBE < seconds < 8 * PROBE
    # The next client has the same timeout.
    status, _, seconds, _ = post(suite)
    assert status == 503 and 3 * PROBE < seconds < 8 * PROBE
    m = own_metrics(suite.gateway_sock)
    assert m['sconce_gateway_service_failures_total{service="chat",kind="silent"}'] == 2


def test_a_service_that_hangs_is_given_up_later(make_fake):
    suite, fake = make_fake(lambda path: None)
    status, body, seconds, _ = post(suite)
    assert status == 503 and body["error"]["code"] == "service_down"
    assert 8 * PROBE < seconds < 16 * PROBE
    assert fake.paths.count("/health") >= 8


def test_a_slow_answer_is_awaited_while_the_service_lives(make_fake):
    slow = 14 * PROBE * SLOW
    suite, fake = make_fake(lambda path: 0 if path == "/health" else slow)
    status, _, seconds, _ = post(suite)
    assert status == 200 and seconds * SLOW >= slow
    assert fake.paths.count("/health") >= 5
    # No client waits any more, so there are no more probes.
    n = len(fake.paths)
    time.sleep(3 * PROBE * SLOW)
    assert len(fake.paths) == n


def test_requests_that_an_ending_service_has_read_may_finish(make_fake):
    """After SIGTERM a service accepts no new connection, and answers the requests that it has."""
    slow = 6 * PROBE * SLOW
    suite, fake = make_fake(lambda path: slow, max_accepted=1)
    results = []
    first = threading.Thread(target=lambda: results.append(post(suite)[0]))
    first.start()
    while not fake.paths:
        time.sleep(0.01)
    assert post(suite)[0] == 503  # the backend does not read this request
    first.join()
    assert results == [200]


def test_a_service_that_crashes_at_every_start_is_given_up(make_suite, tmp_path):
    suite = make_suite(gateway="  probe_interval: %dms\n" % (PROBE * 1000 * SLOW))
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nsleep 0.1\nkill -ABRT $$\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    good = suite.chat.argv
    suite.chat.argv = [str(broken)]
    status, body, _, _ = post(suite)
    assert status == 503 and body["error"]["code"] == "service_down"
    assert suite.chat.starts >= 3
    suite.chat.argv = good
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30 * SLOW)
    c.request("GET", "/v1/models")
    assert c.getresponse().status == 200
