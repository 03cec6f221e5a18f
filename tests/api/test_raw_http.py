# SPDX-License-Identifier: Apache-2.0
"""Sends malformed requests: each gets an error in the API's format, and the gateway stays
usable."""
import json
import re
import socket
import time

import pytest

from conftest import SLOW, read_all

HOST = b"Host: x\r\n"
BODY = json.dumps({"model": "tiny", "prompt": "Once", "max_tokens": 2}).encode()

pytestmark = pytest.mark.sanitize


def split(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), head.lower(), body


def error_code(answer):
    status, head, body = split(answer)
    assert b"content-type: application/json" in head, answer
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return status, error["code"]


def post(body=BODY, path=b"/v1/completions", headers=b"Connection: close\r\n", length=True):
    return (b"POST " + path + b" HTTP/1.1\r\n" + HOST + headers +
            (b"Content-Length: %d\r\n" % len(body) if length else b"") + b"\r\n" + body)


@pytest.mark.parametrize("data,expected", [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", (400, "bad_request")),
    (b"hello\r\n\r\n", (400, "bad_request")),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505, "version_not_supported")),
    (b"GET / HTTP/1.1\r\n\r\n", (400, "bad_request")),
    (b"GET / HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n", (400, "bad_request")),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 60000 + b"\r\n\r\n",
     (431, "headers_too_large")),
    (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 200 + b"\r\n", (431, "headers_too_large")),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", (414, "uri_too_long")),
    (b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999\r\n\r\n",
     (413, "request_too_large")),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
     (400, "bad_request")),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
     (400, "bad_request")),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n",
     (501, "not_implemented")),
    (b"POST /v1/completions HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", (400, "bad_request")),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Expect: magic\r\nContent-Length: 1\r\n\r\n",
     (417, "expectation_failed")),
])
def test_malformed_requests_get_json_errors(suite, data, expected):
    assert error_code(suite.raw(data)) == expected


def test_large_bodies_are_refused_while_they_are_sent(suite):
    body = b"x" * (17 << 20)
    assert error_code(suite.raw(post(body), 30)) == (413, "request_too_large")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    data = post(b"", headers=b"Transfer-Encoding: chunked\r\n", length=False) + chunk * 300
    assert error_code(suite.raw(data, 30)) == (413, "request_too_large")


def test_large_bodies_below_the_limit_pass(suite):
    prompt = json.dumps({"model": "tiny", "prompt": "a" * (15 << 20)}).encode()
    assert error_code(suite.raw(post(prompt), 60)) == (400, "context_length_exceeded")


def test_chunked_bodies_are_understood(suite):
    data = post(b"", headers=b"Connection: close\r\nTransfer-Encoding: chunked\r\n", length=False)
    for i in range(0, len(BODY), 7):
        piece = BODY[i:i + 7]
        data += b"%x;ext=1\r\n%s\r\n" % (len(piece), piece)
    status, _, body = split(suite.raw(data + b"0\r\nTrailer: x\r\n\r\n"))
    assert status == 200 and json.loads(body)["choices"]


def test_expect_continue_is_answered(suite):
    with suite.connect() as s:
        s.sendall(post(b"", headers=b"Connection: close\r\nExpect: 100-continue\r\n"
                       b"Content-Length: %d\r\n" % len(BODY), length=False))
        assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(BODY)
        assert split(read_all(s))[0] == 200


def test_pipelined_requests_are_answered_in_order(suite):
    data = post(headers=b"") + b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n" + \
        b"GET /none HTTP/1.1\r\n" + HOST + b"\r\n" + post(headers=b"") + b"\x01garbage\r\n\r\n"
    answer = suite.raw(data)
    assert [int(s) for s in re.findall(rb"HTTP/1.1 (\d+) ", answer)] == [200, 200, 404, 200, 400]
    assert b"malformed" in answer


def test_pipelined_heads_have_the_same_limits(suite):
    data = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n" + b"GET / HTTP/1.1\r\n" + HOST + \
        b"X: " + b"a" * 60000 + b"\r\n\r\n"
    assert [int(s) for s in re.findall(rb"HTTP/1.1 (\d+) ", suite.raw(data))] == [200, 431]


def test_requests_may_come_byte_by_byte(suite):
    with suite.connect() as s:
        for byte in post():
            s.sendall(bytes([byte]))
        assert split(read_all(s))[0] == 200


def test_http_1_0_is_answered(suite):
    status, head, body = split(suite.raw(b"GET /health HTTP/1.0\r\n\r\n"))
    assert status == 200 and b"connection: close" in head and json.loads(body)["status"] == "ok"
    body = json.dumps({"model": "tiny", "prompt": "Once", "max_tokens": 3, "stream": True}).encode()
    answer = suite.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) +
                       body)
    assert b"chunked" not in answer and answer.endswith(b"data: [DONE]\n\n")


def test_head_has_no_body(suite):
    for path in (b"/health", b"/v1/models"):
        status, head, body = split(suite.raw(
            b"HEAD " + path + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
        assert status == 200 and body == b"", path
    answer = suite.raw(b"HEAD /v1/models HTTP/1.1\r\n" + HOST + b"\r\n" +
                       b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert [int(s) for s in re.findall(rb"HTTP/1.1 (\d+) ", answer)] == [200, 200]


def test_a_star_is_no_path_here(suite):
    status, code = error_code(suite.raw(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
    assert status in (404, 405) and code


def test_slow_heads_are_cut(make_suite):
    suite = make_suite(gateway="  header_timeout: 1s\n")
    with suite.connect(30) as s:
        start = time.monotonic()
        s.sendall(b"GET /health HTTP/1.1\r\n")
        assert error_code(read_all(s)) == (408, "request_timeout")
        assert 0.5 < time.monotonic() - start < 5 * SLOW
    assert split(suite.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))[0] \
        == 200


def test_closing_half_of_a_connection_is_leaving(suite):
    """The gateway treats a client that closes its sending side as disconnected, as most servers
    do."""
    with suite.connect() as s:
        s.sendall(post(json.dumps({"model": "tiny", "prompt": "Once", "max_tokens": 1500, "n": 16,
                                   "ignore_eos": True}).encode()))
        s.shutdown(socket.SHUT_WR)
        start = time.monotonic()
        read_all(s)
        assert time.monotonic() - start < 1 * SLOW
    suite.wait_metric("sconce_chat_requests_active", 0)


def test_random_bytes_never_break_it(suite):
    import random
    rng = random.Random(1)
    valid = post()
    for _ in range(300):
        data = bytearray(valid)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with suite.connect() as s:
            s.sendall(bytes(data[:rng.randrange(1, len(data) + 1)]))
            if rng.random() < 0.3:
                s.settimeout(0.02)
                try:
                    s.recv(100)
                except TimeoutError:
                    pass
    assert suite.gateway.starts == 1
    suite.wait_metric("sconce_chat_requests_active", 0)
    assert split(suite.raw(post()))[0] == 200
