# SPDX-License-Identifier: Apache-2.0
"""Tests a backend that answers with invalid HTTP: the client gets an error, and the gateway goes
on."""
import http.client
import json
import os
import socket
import threading
import time

import pytest

from activator import listen_unix
from conftest import SLOW, own_metrics, read_all

pytestmark = pytest.mark.sanitize

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUEST = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
           b"Content-Length: 2\r\n\r\n{}")
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Liar:
    """A fake chat service: on each connection it reads a request head and sends the bytes that the
    test has chosen. It then closes the connection, unless the test tells it to keep the connection
    open."""

    def __init__(self, path):
        self.listener = listen_unix(path)
        self.answer = b""
        self.keep = False
        self.open = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                s, _ = self.listener.accept()
                keep = self.keep
                data = b""
                while b"\r\n\r\n" not in data:
                    piece = s.recv(65536)
                    if not piece:
                        raise OSError("the connection ended before its head")
                    data += piece
                if keep:  # before the answer, because a test that has the answer may change @open
                    self.open.append(s)
                s.sendall(self.answer)
                if not keep:
                    s.close()
            except OSError:
                if self.listener.fileno() < 0:
                    return

    def close(self):
        self.listener.close()


@pytest.fixture(scope="module")
def lying(request):
    from conftest import Suite, check_log
    suite = Suite(request.getfixturevalue("model_dir"))
    path = os.path.join(suite.dir, "liar.sock")
    liar = Liar(path)
    suite.gateway.argv[suite.gateway.argv.index("--chat-socket") + 1] = path
    yield suite, liar
    liar.close()
    check_log(suite.close())


def failures(suite, kind):
    return own_metrics(suite.gateway_sock)[
        'sconce_gateway_service_failures_total{service="chat",kind="%s"}' % kind]


def ask(suite):
    with suite.connect(20) as s:
        s.sendall(REQUEST)
        return read_all(s)


def check_alive(suite):
    assert b" 200 OK" in suite.raw(HEALTH)
    assert suite.gateway.starts == 1


def deep_health(suite):
    s = socket.socket(socket.AF_UNIX)
    with s:
        s.settimeout(20 * SLOW)
        s.connect(suite.gateway_sock)
        s.sendall(b"GET /health?deep=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return read_all(s)


def test_a_service_that_is_about_to_exit_is_not_ill(lying):
    suite, liar = lying
    ill = b"HTTP/1.1 503 Service Unavailable\r\n" + JSON + b"Content-Length: %d\r\n\r\n%s"
    stopping = b'{"status":"stopping","version":"0","models":[],"running":0}'
    liar.answer = ill % (len(stopping), stopping)
    answer = deep_health(suite)
    assert b" 200 OK" in answer and stopping in answer
    broken = b'{"status":"error","version":"0"}'
    liar.answer = ill % (len(broken), broken)
    assert b" 503 " in deep_health(suite)


@pytest.mark.parametrize("answer", [
    OK + b"Transfer-Encoding: xchunked\r\n\r\n",
    OK + b"Transfer-Encoding: identity\r\n\r\n{}",
    OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    OK + b"Content-Length: abc\r\n\r\n",
    OK + b"Content-Length: -1\r\n\r\n",
    OK + b"Content-Length: +2\r\n\r\n{}",
    OK + b"Content-Length: \r\n\r\n",
    OK + b"Content-Length: 2, 2\r\n\r\n{}",
    OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Content-Length: 18446744073709551615\r\n\r\n",
    OK + b"Content-Length: 99999999999999999999999999\r\n\r\n",
    OK + JSON + b"\r\n{}",
    OK + b"A : b\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"A: b\r\n folded\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"A: \x01\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"nothing\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"a: b\r\n" * 200 + b"Content-Length: 2\r\n\r\n{}",
    OK + b"a: " + b"b" * 60000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 99 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    b"hello\r\n\r\n",
    b"\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
    b"\x00\x01\x02\x03\r\n\r\n",
])
def test_a_bad_head_is_reported_and_survived(lying, answer):
    suite, liar = lying
    liar.answer = answer
    before = failures(suite, "malformed")
    told = ask(suite)
    assert told.startswith(b"HTTP/1.1 502 "), told
    assert json.loads(told.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "service_failed"
    assert failures(suite, "malformed") == before + 1
    check_alive(suite)


@pytest.mark.parametrize("chunks,kind", [
    (b"zz\r\n", "malformed"), (b"5bzz\r\nhello", "malformed"), (b"-5\r\nhello", "malformed"),
    (b"10000000000000000\r\n", "malformed"), (b"5\nhello", "malformed"),
    (b"5\r\nhelloworld\r\n", "malformed"), (b"5\r\nhello\n0\r\n\r\n", "malformed"),
    (b"5 \r\nhello\r\n", "malformed"), (b"5;\r\nhello\r\n", "malformed"),
    (b"5\r\nhello\r\n0\r\nA b\r\n\r\n", "malformed"),
    (b"5\r\nhello\r\n0\r\n" + b"a: b\r\n" * 9000, "malformed"),
    (b"8000000000000000\r\nhello", "truncated"), (b"5\r\nhel", "truncated"),
    (b"5\r\nhello\r\n", "truncated"), (b"5\r\nhello\r\n0\r\n", "truncated"), (b"", "truncated"),
])
def test_bad_chunks_break_the_transfer_off(lying, chunks, kind):
    suite, liar = lying
    liar.answer = CHUNKED + chunks
    before = failures(suite, kind)
    told = ask(suite)
    assert told.startswith(b"HTTP/1.1 200 OK"), told
    assert not told.endswith(b"0\r\n\r\n") and b"[DONE]" not in told
    assert failures(suite, kind) == before + 1
    check_alive(suite)


@pytest.mark.parametrize("answer,status,body", [
    (OK + JSON + b"Content-Length: 2\r\n\r\n{}", 200, b"{}"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + JSON + b"content-length: 2\r\n\r\n{}", 200, b"{}"),
    (b"HTTP/1.1 429 \r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nT: u\r\n\r\n", 429, b"{}"),
    (b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", 404, b"{}"),
    (OK + JSON + b"Content-Length: 2\r\n\r\n{}and more", 200, b"{}"),
])
def test_odd_answers_pass(lying, answer, status, body):
    suite, liar = lying
    liar.answer = answer
    told = ask(suite)
    assert told.startswith(b"HTTP/1.1 %d " % status), told
    rest = told.split(b"\r\n\r\n", 1)[1]
    assert rest == body
    check_alive(suite)


def test_bytes_after_an_answer_reach_no_client(lying):
    """A kept-alive connection with an unread second answer is not reused."""
    suite, liar = lying
    liar.keep = True
    liar.answer = (OK + JSON + b"Content-Length: 2\r\n\r\n{}" +
                   OK + JSON + b"Content-Length: 4\r\n\r\nevil")
    for _ in range(3):
        assert ask(suite).endswith(b"\r\n\r\n{}")
    liar.keep = False
    check_alive(suite)


def test_an_answer_in_pieces_is_put_together(lying):
    suite, liar = lying
    liar.open.clear()
    liar.answer = b""
    liar.keep = True

    def serve():
        while not liar.open:
            time.sleep(0.01)
        first = liar.open[0]  # later connections request /health, because the answer is slow
        for byte in OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n" + \
                b"5;x=\"y\"\r\nhello\r\n6\r\n world\r\n0\r\n\r\n":
            first.sendall(bytes([byte]))

    thread = threading.Thread(target=serve)
    thread.start()
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=20 * SLOW)
    try:
        c.request("POST", "/v1/completions", "{}")
        assert c.getresponse().read() == b"hello world"
    finally:
        c.close()
        liar.keep = False
    thread.join()
    check_alive(suite)


@pytest.mark.parametrize("events,ends", [
    (b"event: message_start\ndata: {}\n\n", True),
    (b"event: message_start\ndata: {", False),
    (b"event: message_stop\ndata: {}\n\n", True),
    (b"event: error\ndata: {}\n\n", False),
])
def test_a_cut_stream_of_events_with_names_is_no_clean_end(lying, events, ends):
    """If the service sent no error event, the gateway sends one, but only after a whole event."""
    suite, liar = lying
    while liar.open:  # connections of earlier tests, which the gateway would reuse
        liar.open.pop().close()
    liar.answer = CHUNKED + b"%x\r\n%s\r\n" % (len(events), events)
    with suite.connect(20) as s:
        s.sendall(REQUEST.replace(b"/v1/completions", b"/v1/messages"))
        answer = read_all(s)
    added = answer.split(b"\r\n\r\n", 1)[1].split(events, 1)[1]
    assert (b'event: error\ndata: {"type":"error","error":{"type":"api_error"' in added) == ends
    assert not answer.endswith(b"0\r\n\r\n")
    check_alive(suite)
