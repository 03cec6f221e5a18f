# SPDX-License-Identifier: Apache-2.0
"""Tests the history of requests: what is counted, who may see it, what is in its file, and how
`sconce metrics` shows it."""
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import unicodedata
import xml.etree.ElementTree

import pytest

from conftest import BUILD, SLOW, Suite, check_log

SCONCE = BUILD / "services/cli/sconce"
KEYS = ("  tcp_access: key\n  api_keys:\n    - {key: sk-one, name: laptop}\n"
        "    - {key: sk-boss, name: boss, rights: [infer, observe, manage]}\n")
SECRET = "the unicorn hides behind the teapot"


def call(suite, path, body=None, key=None, unix=False):
    client = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
    if unix:
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.connect(suite.gateway_sock)
    client.request("GET" if body is None else "POST", path,
                   None if body is None else json.dumps(body),
                   {"Authorization": "Bearer " + key} if key else {})
    answer = client.getresponse()
    text = answer.read()
    client.close()
    return answer.status, json.loads(text) if text[:1] == b"{" else text


def complete(suite, **more):
    return call(suite, "/v1/completions",
                {"prompt": SECRET, "max_tokens": 6, "temperature": 0, "ignore_eos": True,
                 "model": "tiny", **more}, key="sk-one")


def history(suite, query="", enough=lambda rows: rows, unix=True):
    """Waits until the history has the requests."""
    end = time.monotonic() + 30 * SLOW
    while True:
        status, answer = call(suite, "/v1/history" + query, unix=unix)
        assert status == 200, answer
        if enough(answer["data"]) or time.monotonic() > end:
            return answer["data"]
        time.sleep(0.2)


def requests(suite, wanted):
    """Waits until the history has @wanted requests; returns how many it has."""
    def count(rows):
        return sum(row["requests"] for row in rows)
    return count(history(suite, enough=lambda rows: count(rows) >= wanted))


def verb(suite, *args, **more):
    return subprocess.run([SCONCE, "metrics", *args, "--address", f"unix:{suite.gateway_sock}"],
                          capture_output=True, text=True, timeout=60 * SLOW, **more)


@pytest.fixture(scope="module")
def suite(model_dir):
    # The history is on by default.
    suite = Suite(model_dir, gateway=KEYS, history="  idle_timeout: 60s\n")
    assert complete(suite)[0] == 200
    assert complete(suite)[0] == 200  # its prompt is cached
    assert complete(suite, model="none")[0] == 404
    assert call(suite, "/v1/completions", {"prompt": "a"}, key="wrong")[0] == 401
    history(suite, enough=lambda rows: rows and rows[0]["requests"] >= 4)
    yield suite
    check_log(suite.close())


def test_requests_are_counted_by_model_and_key(suite):
    rows = history(suite, "?by=service,model,key")
    by = {(r["service"], r["model"], r["key"]): r for r in rows}
    assert set(by) == {("chat", "tiny", "laptop"), ("chat", "", "laptop"), ("gateway", "", "")}
    row = by["chat", "tiny", "laptop"]
    assert row["requests"] == 2 and row["errors"] == row["refused"] == row["cancelled"] == 0
    assert row["generated_tokens"] == 12 and row["next_tokens"] == 10
    assert row["prompt_tokens"] > row["cached_tokens"] >= 0
    assert row["first_tokens"] == 2
    assert 0 < row["first_max_usec"] <= row["first_usec"] <= row["duration_usec"]
    assert 0 < row["first_token_seconds_p50"] <= row["first_token_seconds_p95"]
    assert row["first_token_seconds_p95"] <= 1.26 * row["first_max_usec"] / 1e6
    mean = row["next_tokens"] / row["generate_usec"] * 1e6
    assert 0 < row["tokens_per_second_p50"] <= row["tokens_per_second_p95"]
    # The last bucket has all speeds above 0.05 × 1.25^62 tokens per second.
    assert row["tokens_per_second_p95"] > min(mean, 0.05 * 1.25**62) / 1.26
    assert by["chat", "", "laptop"]["tokens_per_second_p50"] is None
    assert by["chat", "", "laptop"]["errors"] == 1
    assert by["gateway", "", ""]["errors"] == 1
    (sums,) = history(suite)
    assert sums["requests"] == 4 and sums["errors"] == 2 and sums["model"] == ""
    assert sum(r["requests"] for r in history(suite, "?step=60&by=model")) == 4
    assert history(suite, "?from=0&to=1000", enough=lambda rows: True) == []


def test_only_who_may_manage_sees_it(suite):
    assert call(suite, "/v1/history", key="sk-one")[0] == 403
    assert call(suite, "/v1/history", key="sk-boss")[0] == 200
    assert call(suite, "/history", key="sk-boss")[0] == 404
    assert call(suite, "/history", {}, unix=True)[0] == 404


def test_wrong_queries_are_refused(suite):
    for query in ["from=x", "to=-1", "step=1", "by=prompt", "by=", "offset=100000", "step=60x"]:
        status, answer = call(suite, "/v1/history?" + query, unix=True)
        assert status == 400 and answer["error"]["param"] == query.split("=")[0], query


def test_the_file_has_no_content_of_requests(suite):
    path = pathlib.Path(suite.dir) / ".local/state/sconce-history"
    assert sorted(os.listdir(path))[0] == "history.db"
    assert (path / "history.db").stat().st_mode & 0o777 == 0o600
    data = b"".join((path / name).read_bytes() for name in os.listdir(path))
    assert b"laptop" in data and b"tiny" in data
    for word in SECRET.split() + ["sk-one", "sk-boss"]:
        assert word == "the" or word.encode() not in data


def test_the_verb_shows_tables_and_json(suite):
    out = verb(suite, "--by", "model,key")
    assert out.returncode == 0, out.stderr
    head, *lines = out.stdout.splitlines()
    assert head.split()[:4] == ["MODEL", "KEY", "REQUESTS", "FAILED"]
    assert any(line.split()[:4] == ["tiny", "laptop", "2", "0"] for line in lines), out.stdout
    out = verb(suite, "--by", "hour")
    assert out.stdout.startswith("HOUR") and out.returncode == 0
    assert verb(suite, "--by", "day", "--since", "7d").stdout.startswith("DAY")
    data = json.loads(verb(suite, "--json").stdout)["data"]
    tiny = next(r for r in data if r["model"] == "tiny")
    assert tiny["tokens_per_second"] > 0 and tiny["first_token_seconds"] > 0
    assert verb(suite, "--by", "nix").returncode == 2
    assert verb(suite, "--since", "1s").returncode == 2
    out = verb(suite, "--key", "sk-one", env={**os.environ, "HOME": suite.dir})
    assert out.returncode == 0  # the owner of the socket has all rights with any key


def show(rows, *args):
    """Runs `sconce metrics` with a gateway that answers with these rows."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            text = json.dumps({"data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        out = subprocess.run([SCONCE, "metrics", *args, "--address", "127.0.0.1:%d" % server.server_port],
                             capture_output=True, text=True, timeout=60 * SLOW)
        server.shutdown()
    assert out.returncode == 0, out.stderr
    return out.stdout


def columns(text):
    """Returns how many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def test_tables_have_straight_columns_with_names_of_all_scripts():
    names = ["plain", "größe", "模型模型", "e\u0301tude", "x" * 60, "模" * 30]
    rows = [{"model": name, "requests": 7, "next_tokens": 10, "generate_usec": 1000000, "first_tokens": 1,
             "first_usec": 2000000, "first_max_usec": 3000000, "tokens_per_second_p50": 11.5,
             "tokens_per_second_p95": 12.5, "first_token_seconds_p50": 1.25,
             "first_token_seconds_p95": None} for name in names]
    head, *lines = show(rows).splitlines()
    assert [w for w in head.split() if w.startswith("P")] == ["PROMPT", "P50", "P95", "P50", "P95"]
    assert {columns(line) for line in lines} == {len(head)}
    assert lines[0].split()[6:] == ["10.0", "11.5", "12.5", "2000", "ms", "1250", "ms", "-", "3000", "ms"]


@pytest.mark.parametrize("n, last", [(7, "m6"), (8, "(other models)")])
def test_an_image_has_a_name_for_each_color(n, last):
    rows = [{"time": int(time.time()) - 60, "model": "m%d" % i, "requests": 100 - i} for i in range(n)]
    image = show(rows, "--plot", "-")
    names = [e.text for e in xml.etree.ElementTree.fromstring(image).iter("{http://www.w3.org/2000/svg}text")]
    assert last in names and "m5" in names and "m7" not in names
    assert ("(other models)" in names) == (n == 8)


def test_the_verb_draws_an_image(suite, tmp_path):
    path = tmp_path / "out.svg"
    assert verb(suite, "--plot", str(path)).returncode == 0
    tree = xml.etree.ElementTree.parse(path).getroot()
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    text = path.read_text()
    for word in ["tiny", "tokens/s", " ms<", "Requests per hour", "prefers-color-scheme"]:
        assert word in text, word
    assert text.count('<rect class') == 0 and "<rect" in text and "<circle" in text
    assert verb(suite, "--plot", "-", "--since", "30d").stdout.startswith("<svg")
    assert verb(suite, "--plot", str(tmp_path / "no/such.svg")).returncode == 1


def test_a_gateway_that_ends_sends_what_it_has_to_a_running_history(model_dir):
    suite = Suite(model_dir, gateway=KEYS, history="  enabled: true\n  idle_timeout: 60s\n")
    assert complete(suite)[0] == 200
    assert history(suite)[0]["requests"] == 1
    assert complete(suite)[0] == 200
    time.sleep(0.2)  # The gateway collects at most ten times a second.
    suite.gateway.kill()
    suite.gateway.wait_gone()
    assert sum(row["requests"] for row in history(suite)) == 2
    check_log(suite.close())


# A gateway that collected only at fixed times would have done it once within this time.
ROUND = 6


@pytest.fixture
def kept(make_suite):
    """Provides services with a history, which has one request."""
    suite = make_suite(gateway=KEYS, history="  idle_timeout: 60s\n")
    assert complete(suite)[0] == 200
    assert history(suite)[0]["requests"] == 1
    return suite


def test_a_gateway_that_ends_starts_no_history(kept):
    kept.history.kill()
    kept.history.wait_gone()
    assert complete(kept)[0] == 200
    kept.gateway.kill()
    kept.gateway.wait_gone()
    assert kept.history.starts == 1


def test_collecting_starts_no_service(kept):
    for n in range(3):
        assert complete(kept)[0] == 200
        time.sleep(0.2)  # The gateway collects directly after a request.
        kept.chat.kill()
        kept.chat.wait_gone()
        time.sleep(ROUND)
        assert kept.chat.starts == 1 + n
    assert kept.embed.starts == kept.audio.starts == 0
    assert requests(kept, 4) == 4
    assert kept.history.starts == 1


def test_numbers_start_the_history_only_after_a_request(kept):
    assert complete(kept)[0] == 200
    kept.history.kill()
    kept.history.wait_gone()
    time.sleep(ROUND)
    assert kept.history.starts == 1
    # The numbers that could not be sent are sent with those of the next request.
    assert complete(kept)[0] == 200
    assert requests(kept, 3) == 3


def test_requests_whose_clients_left_are_collected_with_the_next_request(kept):
    with socket.socket(socket.AF_UNIX) as s:
        body = json.dumps({"prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True})
        s.connect(kept.gateway_sock)
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(body), body.encode()))
        data = b""
        while b"data:" not in data:
            data += s.recv(65536)
    kept.wait_metric("sconce_chat_cancelled_total", 1)
    assert complete(kept)[0] == 200
    assert requests(kept, 3) == 3
    assert sum(row["cancelled"] for row in history(kept)) == 1


def test_the_history_delays_no_idle_exit(make_suite):
    idle = "  idle_timeout: 500ms\n"
    suite = make_suite(gateway=KEYS, gateway_idle="500ms", chat=idle, history=idle)
    for n in range(3):
        assert complete(suite)[0] == 200
        began = time.monotonic()
        suite.gateway.wait_gone()
        took = time.monotonic() - began
        assert took < 1.5 * SLOW, took
        suite.chat.wait_gone()
        took = time.monotonic() - began
        # The exit of the model's threads is part of this time.
        assert took < 3 * SLOW, took
    assert suite.gateway.starts == suite.chat.starts == 3
    assert requests(suite, 3) == 3


def test_the_history_can_be_switched_off(model_dir):
    suite = Suite(model_dir, history="  enabled: false\n")
    assert call(suite, "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
    status, answer = call(suite, "/v1/history", unix=True)
    assert status == 404 and answer["error"]["code"] == "history_disabled"
    out = verb(suite)
    assert out.returncode == 1 and "switched off" in out.stderr
    assert not (pathlib.Path(suite.dir) / ".local").exists()
    check_log(suite.close())


# --- saved benchmark runs ---

def bench(tmp_path, *args):
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    return subprocess.run([SCONCE, *args], capture_output=True, text=True, env=env,
                          timeout=60 * SLOW)


def insert(tmp_path, **more):
    """Adds a run like the last one, with other values."""
    import sqlite3
    db = sqlite3.connect(tmp_path / "sconce/bench.db")
    row = dict(zip([c[1] for c in db.execute("PRAGMA table_info(run)")],
                   db.execute("SELECT * FROM run ORDER BY id DESC LIMIT 1").fetchone()))
    row.update(more, id=None)
    db.execute("INSERT INTO run VALUES(%s)" % ",".join("?" * len(row)), list(row.values()))
    db.commit()
    db.close()


def test_benchmark_runs_are_kept_and_compared(model_dir, tmp_path):
    assert bench(tmp_path, "metrics", "compare").stderr.startswith("There are no two runs")
    run = ["bench", "-m", str(model_dir / "tiny.gguf"), "-p", "16", "-n", "4", "-r", "2", "-t", "1",
           "--device", "cpu"]
    assert bench(tmp_path, *run).returncode == 0 and not (tmp_path / "sconce").exists()
    assert bench(tmp_path, *run, "--save").returncode == 0
    assert bench(tmp_path, "bench", "--membw", "--save").returncode == 2
    insert(tmp_path, version="99.0", time=2000000000, pp=1000.0, pp_stddev=1.0, tg=100.0,
           tg_stddev=1.0)
    insert(tmp_path, version="99.1", time=2000000001, pp=1010.0, tg=80.0)
    out = bench(tmp_path, "metrics", "compare")
    assert out.returncode == 3, out.stderr
    assert "99.0 → 99.1" in out.stdout and "-20.0 %" in out.stdout, out.stdout
    lines = json.loads(bench(tmp_path, "metrics", "compare", "--json").stdout)["comparisons"]
    assert [(c["what"], c["verdict"]) for c in lines] == [("prefill", "same"), ("decode", "slower")]
    # A change within the noise or below the threshold does not count.
    assert bench(tmp_path, "metrics", "compare", "--threshold", "25").returncode == 0
    insert(tmp_path, version="99.2", time=2000000002, tg=70.0, tg_stddev=20.0)
    assert bench(tmp_path, "metrics", "compare").returncode == 0
    assert bench(tmp_path, "metrics", "compare", "--base", "99.0", "--threshold", "0").returncode == 0
    # Runs of other machines are compared only on request, and then being slower is no failure.
    insert(tmp_path, version="99.2", time=2000000003, machine="other", pp=500.0)
    assert bench(tmp_path, "metrics", "compare").returncode == 0
    out = bench(tmp_path, "metrics", "compare", "--by", "machine")
    assert out.returncode == 0 and "→ other" in out.stdout and "-50." in out.stdout, out.stdout
    assert bench(tmp_path, "metrics", "compare", "--model", "nix").stdout == ""
    assert bench(tmp_path, "metrics", "compare", "--by", "key").returncode == 2


def test_a_file_of_another_program_is_left_alone(model_dir, tmp_path):
    (tmp_path / "sconce").mkdir()
    (tmp_path / "sconce/bench.db").write_bytes(b"no database" * 100)
    out = bench(tmp_path, "metrics", "compare")
    assert out.returncode == 1 and "bench.db" in out.stderr
