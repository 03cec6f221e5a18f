# SPDX-License-Identifier: Apache-2.0
"""Tests clients that disconnect, and services that exit or crash: no data is lost, no resource
leaks."""
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import signal
import socket
import time

import pytest

from conftest import SLOW, read_all

try:
    import openai
except ImportError:  # tests that need it are skipped
    openai = None
needs_openai = pytest.mark.skipif(openai is None, reason="no openai package")

# Sixteen requests for 2,048 tokens of context: they run for many seconds on one thread.
LONG = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 2000, "n": 16,
        "ignore_eos": True, "temperature": 1}
ONE_LONG = {**LONG, "n": 1}
SHORT = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
pytestmark = [pytest.mark.long, pytest.mark.sanitize]


def request_bytes(body, path="/v1/completions"):
    data = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
            (path.encode(), len(data)) + data)


def start(suite, body):
    s = suite.connect(60)
    s.sendall(request_bytes(body))
    return s


def post(suite, body, timeout=60):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=timeout * SLOW)
    c.request("POST", "/v1/completions", json.dumps(body))
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, data


def wait_running(suite):
    end = time.monotonic() + 20 * SLOW
    while not suite.chat_metrics()["sconce_chat_sequences_running"]:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.alone
@pytest.mark.parametrize("stream", [False, True])
def test_leaving_clients_are_noticed_within_150_ms(make_suite, stream):
    suite = make_suite()
    post(suite, SHORT)
    times = []
    for _ in range(5):
        s = start(suite, {**LONG, "stream": stream})
        wait_running(suite)
        s.close()
        times.append(suite.wait_metric("sconce_chat_sequences_running", 0))
    assert max(times) < 0.150 * SLOW, times
    assert suite.chat_metrics()["sconce_chat_cancelled_total"] == 5


def test_crowd_that_drops_at_random_leaves_nothing(make_suite):
    suite = make_suite(gateway="  max_connections: 512\n")
    assert post(suite, SHORT)[0] == 200
    rng = random.Random(7)

    def fds():
        samples = suite.metrics()  # the /proc files of confined processes are not readable
        return samples["sconce_gateway_open_fds"], samples["sconce_chat_open_fds"]

    def rss(service):
        with open("/proc/%d/statm" % service.pid) as f:
            return int(f.read().split()[1]) * 4096

    def one(seed):
        r = random.Random(seed)
        try:
            s = suite.connect(30)
        except OSError:
            return
        data = request_bytes({**ONE_LONG, "max_tokens": r.choice([1, 20, 1000]),
                              "n": r.choice([1, 2]), "stream": r.random() < 0.7})
        try:
            s.sendall(data[:r.choice([len(data), len(data), len(data) // 2])])
            if r.random() < 0.8:
                s.settimeout(r.random() * 0.5 + 0.001)
                while s.recv(1000):
                    pass
        except OSError:
            pass
        if r.random() < 0.3:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()

    def settled():
        """Waits until the gateway's kept-alive connections expired; returns descriptors and
        memory."""
        time.sleep(7)  # requests in this time would keep connections from expiring
        return (*fds(), rss(suite.gateway), rss(suite.chat))

    def round_of_200():
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            list(pool.map(one, [rng.random() for _ in range(200)]))
        suite.wait_metric("sconce_chat_requests_active", 0, 30)
        suite.wait_metric("sconce_chat_sequences_running", 0, 30)
        suite.wait_metric("sconce_chat_sequences_waiting", 0, 30)
        return settled()

    before = settled()
    # Memory is compared after the second round and the third. Sanitizers do not return freed memory.
    rounds = [round_of_200() for _ in range(3 if SLOW == 1 else 1)]
    assert rounds[-1][:2] == before[:2], (before, rounds)
    if SLOW == 1:
        second, third = rounds[1:]
        assert third[2] - second[2] < 2 << 20 and third[3] - second[3] < 8 << 20, (second, third)
    assert suite.gateway.starts == 1 and suite.chat.starts == 1
    assert suite.chat_metrics()["sconce_chat_kv_blocks_used"] >= 0
    assert post(suite, SHORT)[0] == 200


def read_until(s, word):
    data = b""
    while word not in data:
        piece = s.recv(65536)
        assert piece, data
        data += piece
    return data


def test_crash_in_mid_stream_is_no_clean_end(make_suite):
    suite = make_suite()
    post(suite, SHORT)
    for _ in range(3):
        with start(suite, {**ONE_LONG, "stream": True}) as s:
            data = read_until(s, b'"text":')
            suite.chat.wait_pid()
            suite.chat.kill(signal.SIGKILL)
            data += read_all(s)
        assert b"[DONE]" not in data and not data.endswith(b"\r\n0\r\n\r\n")
        assert b'data: {"error":' in data and b'"service_failed"' in data
        suite.chat.wait_gone()
        assert post(suite, SHORT)[0] == 200


def test_crash_in_mid_stream_is_no_clean_end_before_http_1_1(make_suite):
    """An HTTP/1.0 answer has no length and ends with the connection, so an error resets the
    connection."""
    suite = make_suite()
    post(suite, SHORT)
    body = json.dumps({**ONE_LONG, "stream": True}).encode()
    with suite.connect() as s:
        s.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        read_until(s, b'"text":')
        suite.chat.kill(signal.SIGKILL)
        with pytest.raises(ConnectionResetError):
            while s.recv(65536):
                pass
    suite.chat.wait_gone()
    assert post(suite, SHORT)[0] == 200 and suite.gateway.starts == 1


@needs_openai
def test_client_library_sees_the_crash(make_suite):
    suite = make_suite()
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="x", max_retries=0, timeout=60)
    with pytest.raises(openai.APIError):
        for chunk in client.completions.create(
                model="tiny", prompt="Once", max_tokens=2000, stream=True,
                extra_body={"ignore_eos": True}):
            if chunk.choices and chunk.choices[0].text:
                suite.chat.kill(signal.SIGKILL)


def test_crash_before_the_answer_is_502_and_harms_no_other(make_suite):
    suite = make_suite()
    for warm in (False, True):
        if warm:
            post(suite, SHORT)
        with start(suite, LONG) as s:
            wait_running(suite)
            # Waits, because the gateway would otherwise consider the connection stale, and retry.
            time.sleep(1.2)
            suite.chat.kill(signal.SIGKILL)
            answer = s.recv(65536)
        assert b" 502 " in answer.split(b"\r\n")[0] and b"service_failed" in answer
        assert post(suite, SHORT)[0] == 200


def test_sigterm_lets_streams_finish(make_suite):
    suite = make_suite()
    post(suite, SHORT)
    s = start(suite, {**ONE_LONG, "max_tokens": 1500, "stream": True})
    read_until(s, b'"text":')
    suite.chat.kill(signal.SIGTERM)
    suite.gateway.kill(signal.SIGTERM)
    data = read_all(s)
    s.close()
    assert b"data: [DONE]\n\n" in data and data.endswith(b"0\r\n\r\n")
    suite.chat.wait_gone()
    suite.gateway.wait_gone()
    assert suite.chat.status == 0 and suite.gateway.status == 0
    assert post(suite, SHORT)[0] == 200


def test_sigterm_ends_requests_that_take_too_long(make_suite):
    suite = make_suite(args=["--drain-timeout", "0.3"])
    post(suite, SHORT)
    s = start(suite, {**LONG, "stream": True})
    read_until(s, b'"text":')
    began = time.monotonic()
    suite.chat.kill(signal.SIGTERM)
    data = read_all(s)
    s.close()
    assert time.monotonic() - began < 5 * SLOW
    assert b'data: {"error":' in data and b'"shutting_down"' in data
    assert b"[DONE]" not in data and not data.endswith(b"\r\n0\r\n\r\n")
    suite.chat.wait_gone()
    assert suite.chat.status == 0


def test_idle_connections_do_not_delay_the_end(make_suite):
    suite = make_suite()
    with suite.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        s.recv(1000)
        began = time.monotonic()
        suite.gateway.kill(signal.SIGTERM)
        suite.gateway.wait_gone()
        assert time.monotonic() - began < 1 * SLOW


def test_restarts_under_load_lose_no_request(make_suite):
    suite = make_suite()
    post(suite, SHORT)
    stop = time.monotonic() + 4

    def hammer(_):
        failures = []
        n = 0
        while time.monotonic() < stop:
            status, data = post(suite, SHORT)
            n += 1
            if status != 200:
                failures.append((status, data))
        return n, failures

    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        jobs = [pool.submit(hammer, i) for i in range(8)]
        while time.monotonic() < stop - 0.5:
            time.sleep(0.25)
            suite.chat.kill(signal.SIGTERM)
        results = [j.result() for j in jobs]
    assert sum(n for n, _ in results) > 50
    assert [f for _, failures in results for f in failures] == []
    assert suite.chat.starts > 3


def test_idle_exits_lose_no_request(make_suite):
    suite = make_suite(chat="  idle_timeout: 100ms\n", gateway_idle="100ms")
    failures = []
    rng = random.Random(3)
    for _ in range(25):
        status, data = post(suite, SHORT)
        if status != 200:
            failures.append((status, data))
        time.sleep(rng.random() * 0.5)
    assert failures == []
    assert suite.gateway.starts > 3


def test_chat_leaves_when_idle_and_metrics_do_not_keep_it(make_suite):
    suite = make_suite(chat="  idle_timeout: 1s\n")
    post(suite, SHORT)
    assert suite.chat.wait_pid()
    end = time.monotonic() + 20 * SLOW
    while suite.chat.process is not None:
        assert time.monotonic() < end
        suite.observe("/metrics")
        http_get(suite, "/health")
        time.sleep(0.2)
    assert suite.chat.status == 0
    starts = suite.chat.starts
    text = suite.observe("/metrics")
    assert b'sconce_service_up{service="chat"} 0' in text and b"vllm:" not in text
    assert suite.chat.starts == starts
    assert post(suite, SHORT)[0] == 200 and suite.chat.starts == starts + 1
    assert b'sconce_service_up{service="chat"} 1' in suite.observe("/metrics")


def http_get(suite, path):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30)
    c.request("GET", path)
    return c.getresponse().read()


def test_polling_does_not_keep_models(make_suite):
    suite = make_suite(chat="  idle_timeout: 1s\n")
    post(suite, SHORT)
    first = suite.chat.starts
    end = time.monotonic() + 20 * SLOW
    while not json.loads(http_get(suite, "/props"))["is_sleeping"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert suite.chat.starts == first + 1
    assert post(suite, SHORT)[0] == 200
    assert not json.loads(http_get(suite, "/props"))["is_sleeping"]


def test_health_does_not_wake_services(make_suite):
    suite = make_suite()
    assert b'"ok"' in http_get(suite, "/health")
    assert suite.chat.starts == 0
    deep = json.loads(suite.observe("/health?deep=1"))
    assert deep["services"]["chat"]["status"] == "ok" and suite.chat.starts == 1


def test_stalled_readers_are_cut(make_suite):
    suite = make_suite(gateway="  stall_timeout: 1s\n")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", suite.port))
    body = {**LONG, "n": 32, "logprobs": 20, "stream": True}
    s.sendall(request_bytes(body))
    s.recv(100)
    suite.wait_metric("sconce_chat_requests_active", 0, 60)
    # Chat may have been the first to cut its connection, because the gateway had stopped reading.
    end = time.monotonic() + 10 * SLOW
    while suite.metrics()["sconce_gateway_clients_stalled_total"] != 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    s.close()


def test_models_swap_and_wait_for_each_other(make_suite):
    suite = make_suite()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(post, suite, {**SHORT, "model": m}) for m in ["tiny", "plain"] * 8]
        assert [j.result()[0] for j in jobs] == [200] * 16
    assert suite.chat_metrics()["sconce_chat_models_loaded"] == 1


def test_status_tells_the_model(make_suite, tmp_path):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.settimeout(20 * SLOW)
    os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    try:
        suite = make_suite()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", suite.port))
        s.sendall(request_bytes({**LONG, "stream": True}))
        seen = b""
        while b"STATUS=tiny: " not in seen:
            seen += notify.recv(4096) + b"\n"
        # The request has ended: the status no longer shows its number or its speed.
        s.close()
        while b"STATUS=tiny loaded, nothing runs, on cpu\n" not in seen:
            seen += notify.recv(4096) + b"\n"
        assert seen.count(b"READY=1") == 2
        suite.chat.kill(signal.SIGTERM)
        while b"STOPPING=1" not in seen:
            seen += notify.recv(4096) + b"\n"
    finally:
        del os.environ["NOTIFY_SOCKET"]
        notify.close()


def test_the_status_of_a_service_that_ends_stays(make_suite, tmp_path, monkeypatch):
    """Work that goes on after SIGTERM does not change the status "Finishing running requests"."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(20 * SLOW)
        suite = make_suite(args=["--drain-timeout", "3"])
        s = start(suite, {**LONG, "stream": True})
        while not notify.recv(4096).startswith(b"STATUS=tiny: "):
            pass
        suite.chat.kill(signal.SIGTERM)
        while b"STATUS=Finishing running requests" not in notify.recv(4096):
            pass
        suite.chat.wait_gone(20 * SLOW)
        s.close()
        notify.setblocking(False)
        with pytest.raises(BlockingIOError):
            while b"STATUS=" not in notify.recv(4096):
                pass


def test_without_sockets_it_says_what_to_do():
    import subprocess

    from conftest import CHAT, GATEWAY
    for binary in (GATEWAY, CHAT):
        r = subprocess.run([binary], capture_output=True, text=True, timeout=20)
        assert r.returncode == 1 and "sconce serve" in r.stderr
        assert subprocess.run([binary, "--version"], capture_output=True).returncode == 0
        assert "--config" in subprocess.run([binary, "-h"], capture_output=True,
                                            text=True).stdout
        r = subprocess.run([binary, "--config", "/nonexistent"], capture_output=True, text=True)
        assert r.returncode == 78 and "/nonexistent" in r.stderr


def test_a_model_directory_that_is_created_late_is_found(make_suite, model_dir, tmp_path):
    """A confined service cannot open files that did not exist at its start, so it restarts."""
    late = tmp_path / "late"
    suite = make_suite(args=("--models", str(late)))
    assert post(suite, SHORT)[0] == 200
    late.mkdir()
    shutil.copy(model_dir / "tiny.gguf", late / "new.gguf")
    body = {**SHORT, "model": "new"}
    end = time.monotonic() + 20 * SLOW
    while post(suite, body)[0] != 200:
        assert time.monotonic() < end
        time.sleep(1)
