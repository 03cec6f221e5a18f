# SPDX-License-Identifier: Apache-2.0
"""Tests the limits on the resources that a client can take from the gateway before it
authenticates, and on the resources that all clients can take together."""
import contextlib
import re
import select
import socket
import time

import pytest

from conftest import SLOW, own_metrics, parse_metrics, read_all

pytestmark = pytest.mark.sanitize

HOST = b"Host: x\r\n"
KEY = b"Authorization: Bearer secret\r\n"
HEALTH = b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
KEYED = "  tcp_access: key\n  api_keys: [secret]\n"
MIB = 1 << 20


def head(path=b"/v1/completions", headers=b"", method=b"POST"):
    return method + b" " + path + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n"


def length(n):
    return b"Content-Length: %d\r\n" % n


CHUNKED = b"Transfer-Encoding: chunked\r\n"


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer.split(b" ", 2)[1])


def code_of(answer):
    return re.search(rb'"code":"(\w+)"', answer).group(1).decode()


def rss(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) * 1024


def ask(suite, data, unix=False):
    """Sends one request; returns (answer, seconds)."""
    start = time.monotonic()
    with contextlib.closing(socket.socket(socket.AF_UNIX) if unix else suite.connect()) as s:
        s.settimeout(15 * SLOW)
        if unix:
            s.connect(suite.gateway_sock)
        s.sendall(data)
        return read_all(s), time.monotonic() - start


def metric(suite, name):
    return own_metrics(suite.gateway_sock)["sconce_gateway_" + name]


def wait_metric(suite, name, value):
    end = time.monotonic() + 10 * SLOW
    while metric(suite, name) != value:
        assert time.monotonic() < end, (name, metric(suite, name))
        time.sleep(0.05)


def send_what_fits(s, data):
    """Sends as much as the socket takes within a moment; a closed connection is not an error."""
    s.setblocking(False)
    sent = 0
    while sent < len(data) and select.select([], [s], [], 0.05)[1]:
        try:
            sent += s.send(data[sent:sent + 65536])
        except (BlockingIOError, ConnectionError):
            break
    s.settimeout(15 * SLOW)
    return sent


# --- requests rejected by their head ---

@pytest.mark.parametrize("headers,path,expected", [
    (length(15 * MIB), b"/v1/completions", (401, "invalid_api_key")),
    (CHUNKED, b"/v1/completions", (401, "invalid_api_key")),
    (b"Expect: 100-continue\r\n" + length(100), b"/v1/completions", (401, "invalid_api_key")),
    (KEY + length(25 * MIB), b"/v1/none", (404, "unknown_url")),
    (KEY + b"Expect: 100-continue\r\n" + CHUNKED, b"/v1/none", (404, "unknown_url")),
    (KEY + length(5 * MIB), b"/health", (405, "method_not_allowed")),
    (KEY + length(25 * MIB), b"/v1/completions", (413, "request_too_large")),
    (KEY + b"Expect: 100-continue\r\n" + length(25 * MIB), b"/v1/completions",
     (413, "request_too_large")),
])
def test_rejected_requests_get_their_error_before_the_body(make_suite, headers, path, expected):
    suite = make_suite(gateway=KEYED)
    answer, seconds = ask(suite, head(path, headers))
    assert (status_of(answer), code_of(answer)) == expected
    assert b"connection: close" in answer.lower() and b"x-request-id: " in answer
    assert seconds < 5 * SLOW


def test_routes_without_a_body_take_none(make_suite):
    suite = make_suite()
    answer, _ = ask(suite, head(b"/health", length(MIB), b"GET"))
    assert (status_of(answer), code_of(answer)) == (413, "request_too_large")
    for body in (length(5) + b"Connection: close\r\n\r\nhello",
                 CHUNKED + b"Connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"):
        answer, _ = ask(suite, head(b"/health", body, b"GET")[:-2])
        assert status_of(answer) == 200
    assert metric(suite, "body_bytes") == 0


def test_web_pages_also_get_their_error_before_the_body(make_suite):
    suite = make_suite(gateway=KEYED + "  cors_origins: [\"https://a.example\"]\n")
    answer, _ = ask(suite, head(headers=b"Origin: https://a.example\r\n" + length(MIB)))
    assert status_of(answer) == 401
    assert b"access-control-allow-origin: https://a.example" in answer.lower()


def test_an_answer_arrives_though_its_body_is_sent(make_suite):
    """Clients that write everything before they read must not get a connection reset."""
    suite = make_suite(gateway=KEYED)
    body = b"x" * (15 * MIB)
    answer, _ = ask(suite, head(headers=length(len(body))) + body)
    assert status_of(answer) == 401


def test_clients_without_a_key_take_no_memory(make_suite):
    suite = make_suite(gateway=KEYED)
    ask(suite, HEALTH)
    pid = suite.gateway.wait_pid()
    before = rss(pid)
    body = b"x" * (6 * MIB)
    with contextlib.ExitStack() as stack:
        for i in range(40):
            s = stack.enter_context(suite.connect())
            send_what_fits(s, head(headers=length(15 * MIB) if i % 2 else CHUNKED) +
                           (b"" if i % 2 else b"%x\r\n" % len(body)) + body)
        assert rss(pid) - before < 16 * MIB
    assert suite.gateway.starts == 1


def test_heads_take_little_memory(make_suite):
    suite = make_suite(gateway="  max_connections: 300\n")
    ask(suite, HEALTH)
    pid = suite.gateway.wait_pid()
    before = rss(pid)
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            s = stack.enter_context(suite.connect())
            s.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 30000)
        time.sleep(0.2)
        assert rss(pid) - before < 300 * 100 * 1024


# --- the common budget for bodies ---

def test_bodies_share_their_memory(make_suite):
    suite = make_suite(gateway="  max_bodies: 32MiB\n")
    ask(suite, HEALTH)
    pid = suite.gateway.wait_pid()
    before = rss(pid)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(suite.connect()) for _ in range(3)]
        for s in held:
            s.sendall(head(headers=length(10 * MIB)) + b"x" * (9 * MIB))
        wait_metric(suite, "body_bytes", 30 * MIB)
        answer, seconds = ask(suite, head(headers=length(10 * MIB)))
        assert (status_of(answer), code_of(answer)) == (503, "overloaded")
        assert b"retry-after: 1" in answer.lower() and seconds < 5 * SLOW
        # The gateway reads another body if it fits. A chunked body fails when the budget is used
        # up.
        data = head(headers=b"Connection: close\r\n" + length(2)) + b"{}"
        assert status_of(ask(suite, data)[0]) == 400
        data = head(headers=CHUNKED) + (b"80000\r\n" + b"x" * 0x80000 + b"\r\n") * 6
        answer, _ = ask(suite, data)
        assert (status_of(answer), code_of(answer)) == (503, "overloaded")
        assert rss(pid) - before < 40 * MIB
        assert metric(suite, "bodies_refused_total") == 2
        assert metric(suite, "body_bytes") == 30 * MIB
    wait_metric(suite, "body_bytes", 0)
    if SLOW == 1:  # sanitizers do not return freed memory
        assert rss(pid) - before < 8 * MIB


def test_a_body_is_given_back_when_the_service_answers(make_suite):
    suite = make_suite()
    body = b'{"model":"tiny","prompt":"Once","max_tokens":1500,"ignore_eos":true,"stream":true,' \
        b'"stop":["' + b"q" * 200 + b'"]}' + b" " * MIB
    with suite.connect(60) as s:
        s.sendall(head(headers=length(len(body))) + body)
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        assert metric(suite, "body_bytes") == 0
        assert metric(suite, "http_requests_active") >= 1


def test_bodies_have_a_time_of_their_own(make_suite):
    suite = make_suite(gateway="  body_timeout: 1s\n  header_timeout: 20s\n")
    answer, seconds = ask(suite, head(headers=length(100)) + b"x")
    assert (status_of(answer), code_of(answer)) == (408, "request_timeout")
    assert 0.5 < seconds < 5 * SLOW
    assert metric(suite, "body_bytes") == 0


# --- idle connections ---

def test_idle_connections_make_room(make_suite):
    suite = make_suite(gateway=KEYED + "  max_connections: 16\n")
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(suite.connect())
        owner.sendall(head(b"/v1/none", KEY, b"GET"))
        assert status_of(owner.recv(1000)) == 404
        idle = [stack.enter_context(suite.connect()) for _ in range(60)]
        for unix in (False, True):
            answer, seconds = ask(suite, HEALTH, unix)
            assert status_of(answer) == 200 and seconds < 2 * SLOW
        # The gateway closed the oldest connection, but not the connection that had sent a valid
        # key.
        assert idle[0].recv(1) == b""
        owner.sendall(head(b"/v1/none", KEY, b"GET"))
        assert status_of(owner.recv(1000)) == 404
        assert metric(suite, "connections_evicted_total") >= 44
        assert metric(suite, "connections") <= 18
    assert suite.gateway.starts == 1


def test_parts_of_heads_make_room_too(make_suite):
    suite = make_suite(gateway="  max_connections: 8\n")
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(suite.connect()).sendall(b"GET /health HT")
        answer, seconds = ask(suite, HEALTH)
        assert status_of(answer) == 200 and seconds < 2 * SLOW


def test_silent_connections_are_closed(make_suite):
    suite = make_suite(gateway="  header_timeout: 1s\n  keepalive_timeout: 4s\n")
    with suite.connect() as silent, suite.connect() as kept:
        kept.sendall(HEALTH.replace(b"Connection: close\r\n", b""))
        assert status_of(kept.recv(1000)) == 200
        start = time.monotonic()
        assert silent.recv(1) == b""
        assert 0.5 < time.monotonic() - start < 3 * SLOW
        kept.sendall(HEALTH)
        assert status_of(kept.recv(1000)) == 200


def test_busy_connections_stay(make_suite):
    """If the gateway can close no connection, it rejects a new one immediately. Each endpoint has a
    limit."""
    suite = make_suite(gateway="  max_connections: 3\n")
    body = b'{"model":"tiny","prompt":"Once","max_tokens":1500,"n":4,"ignore_eos":true,"stream":true}'
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(suite.connect(60)) for _ in range(3)]
        for s in busy:
            s.sendall(head(headers=length(len(body))) + body)
            assert s.recv(20).startswith(b"HTTP/1.1 200")
        # Idle connections beyond the limit do not block new ones either.
        waiting = [stack.enter_context(suite.connect()) for _ in range(100)]
        answer, seconds = ask(suite, HEALTH)
        assert (status_of(answer), code_of(answer)) == (503, "too_many_connections")
        assert b"retry-after: 1" in answer.lower() and seconds < 2 * SLOW
        answer, seconds = ask(suite, HEALTH, unix=True)
        assert status_of(answer) == 200 and seconds < 2 * SLOW
        assert waiting[0].recv(1) == b""


# --- chunks ---

LARGE = (413, "request_too_large")
BAD = (400, "bad_request")


@pytest.mark.parametrize("body,expected", [
    (b"8000000000000000\r\n", LARGE), (b"ffffffffffffffff\r\n", LARGE),
    (b"10000000000000000\r\n", LARGE), (b"0" * 5000, BAD), (b"ffffffffffffffff1", LARGE),
    (b"7fffffffffffffff\r\nhello", LARGE), (b"1000001\r\n", LARGE),
    (b"5bzz\r\nhello", BAD), (b"5 \r\nhello\r\n", BAD), (b"-5\r\nhello", BAD), (b"0x5\r\nhello", BAD),
    (b"\r\nhello", BAD), (b"5\nhello", BAD), (b"5\r\nhelloworld", BAD), (b"5\r\nhello\n0\r\n\r\n", BAD),
    (b"5\r\nhello\r\r\n", BAD), (b"5;\r\nhello", BAD), (b"5;a=\"b\r\nhello", BAD),
    (b"5;a=" + b"b" * 5000, BAD), (b"2\r\n{}\r\n0\r\nA b\r\n\r\n", BAD),
    (b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 4000 + b"\r\n", (431, "headers_too_large")),
    (b"5;a=b;c=\"d e\"\r\nhello\r\n0\r\nTrailer: x\r\n\r\n", (400, "invalid_json")),
    (b"005\r\nhello\r\n00\r\n\r\n", (400, "invalid_json")),
])
def test_odd_chunks_are_answered_at_once(suite, body, expected):
    answer, seconds = ask(suite, head(headers=b"Connection: close\r\n" + CHUNKED) + body)
    assert (status_of(answer), code_of(answer)) == expected
    assert seconds < 5 * SLOW


def test_many_small_chunks_take_no_longer_than_few(suite):
    """Chunks of one byte: the time is linear in the length, not quadratic."""
    def seconds(n):
        data = head(headers=b"Connection: close\r\n" + CHUNKED) + b"1\r\nx\r\n" * n + b"0\r\n\r\n"
        answer, took = ask(suite, data)
        assert status_of(answer) == 400
        return took

    seconds(1000)
    assert seconds(1 << 20) < 5 * SLOW


# --- the journal ---

def lines_of(suite):
    with open(suite.log_path) as f:
        return [line for line in f if re.search(r"^sconce-gateway: \S+ \S+ \d+ \d+B ", line)]


def test_each_request_stands_once_in_the_log(make_suite):
    suite = make_suite(gateway=KEYED + "  header_timeout: 1s\n  max_connections: 4\n")
    requests = [
        (HEALTH, "GET /health 200"),
        (b"hello\r\n\r\n", "- - 400"),
        (b"GET /a HTTP/1.1\r\nbad\r\n\r\n", "GET /a 400"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", "GET /" + "a" * 254 + " 414"),
        (b"GET /slow HTTP/1.1\r\n", "GET /slow 408"),
        (head(headers=length(5)), "POST /v1/completions 401"),
        (head(headers=KEY + length(100 * MIB)), "POST /v1/completions 413"),
        (head(headers=KEY + CHUNKED) + b"zz", "POST /v1/completions 400"),
        (head(b"/none", KEY + length(5)), "POST /none 404"),
        (head(b"/v1/completions", KEY + b"Connection: close\r\n", b"GET"),
         "GET /v1/completions 405"),
    ]
    ids = []
    for data, _ in requests:
        answer, _ = ask(suite, data)
        ids.append(re.search(rb"x-request-id: (\S+)", answer).group(1).decode())
    with suite.connect() as s:
        s.sendall(head(headers=KEY + length(5)) + b"{")
        wait_metric(suite, "http_requests_active", 2)
    time.sleep(0.2)
    lines = lines_of(suite)
    for (_, expected), name in zip(requests, ids):
        found = [line for line in lines if name in line]
        assert len(found) == 1 and found[0].startswith("sconce-gateway: " + expected + " "), found
    assert len([line for line in lines if " 499 " in line and "client left" in line]) == 1
    total = sum(v for k, v in parse_metrics(metrics_text(suite)).items()
                if k.startswith("sconce_gateway_requests_total"))
    assert total == len(lines_of(suite)) - 1


def metrics_text(suite):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.connect(suite.gateway_sock)
        s.sendall(b"GET /metrics HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        return read_all(s).split(b"\r\n\r\n", 1)[1]
