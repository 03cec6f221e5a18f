# SPDX-License-Identifier: Apache-2.0
"""Tests that KV blocks outlive the chat service: a new process reads the blocks of the last process
from the cache service."""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import time

import pytest

from activator import Service
from cache_wire import Client
from conftest import BUILD, SLOW, check_log

openai = pytest.importorskip("openai")

BLOCK = 64  # tokens
CACHE = BUILD / "services/cache/sconce-cache"
WORDS = "Once upon a time there was a little girl named Lily. She loved to play outside in the park. "
pytestmark = pytest.mark.long


class Kept:
    """Runs a suite with a cache service."""

    def __init__(self, suite, models):
        self.suite = suite
        os.makedirs(os.path.join(suite.dir, "sconce"))
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door = os.path.join(suite.dir, "sconce", "cache.sock")
        door.bind(self.door)
        door.listen(64)
        self.directory = os.path.join(suite.dir, "blocks")
        env = {"XDG_RUNTIME_DIR": suite.dir, "HOME": suite.dir, "XDG_CACHE_HOME": self.directory}
        self.log = open(os.path.join(suite.dir, "cache-log"), "ab")
        config = os.path.join(suite.dir, "cache.yaml")
        with open(config, "w") as f:
            f.write("cache:\n  min_free: 0\n")
        # A file that changed a moment ago may change again without a new mtime, so it gets no
        # fingerprint.
        time.sleep(max(0, os.stat(os.path.join(models, "plain.gguf")).st_ctime + 3.1 - time.time()))
        self.cache = Service([str(CACHE), "--config", config], [door], env, self.log)
        self.client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def ask(self, prompt, headers=None, **extra):
        r = self.client.completions.create(model="plain", prompt=prompt, max_tokens=12, temperature=0,
                                           extra_body=extra, extra_headers=headers)
        return r.choices[0].text, r.usage.prompt_tokens_details.cached_tokens

    def restart_chat(self, sig=signal.SIGTERM):
        self.suite.chat.kill(sig)
        self.suite.chat.wait_gone(20 * SLOW)
        if sig == signal.SIGTERM:  # chat exits after the cache service has accepted its blocks
            self.wait_written()

    def wait_written(self):
        """Waits until the cache service has written the accepted blocks in the background. Until
        then clients cannot find these blocks, and its files do not contain them."""
        end = time.monotonic() + 20 * SLOW
        with Client(self.door, timeout=20 * SLOW) as c:
            while c.status()["pending_blocks"] > 0:
                assert time.monotonic() < end, c.status()
                time.sleep(0.01)

    def close(self):
        self.cache.close()
        self.log.close()
        check_log(open(os.path.join(self.suite.dir, "cache-log"), errors="replace").read())


@pytest.fixture
def make_kept(make_suite, model_dir):
    if not CACHE.exists():
        pytest.skip("no cache service in this build")
    all_kept = []

    def make(chat=""):
        # With the reference kernels in plain C, reading blocks is faster than computing them even
        # for a model as small as this one.
        all_kept.append(Kept(make_suite(chat="  context: 1024\n  isa: ref\n" + chat), model_dir))
        return all_kept[-1]

    yield make
    for kept in all_kept:
        kept.close()


def test_a_new_process_reads_what_the_last_one_computed(make_kept):
    kept = make_kept()
    first, n = kept.ask(WORDS * 12)
    assert n == 0
    kept.restart_chat()
    again, n = kept.ask(WORDS * 12)
    assert again == first and n >= 2 * BLOCK and n % BLOCK == 0
    metrics = kept.suite.chat_metrics()
    assert metrics['sconce_chat_loaded_blocks_total{model_name="plain"}'] == n / BLOCK
    assert metrics['sconce_chat_bad_blocks_total{model_name="plain"}'] == 0
    # The cache service may restart, too.
    kept.restart_chat()
    kept.cache.kill()
    kept.cache.wait_gone(20 * SLOW)
    assert kept.ask(WORDS * 12)[0] == first


def test_idle_blocks_are_stored_before_the_process_ends(make_kept, stories):
    kept = make_kept()
    first, _ = kept.ask(WORDS * 12)
    kept.suite.wait_metric('sconce_chat_kept_blocks_total{model_name="plain"}', 5, 20)
    kept.wait_written()
    kept.restart_chat(signal.SIGKILL)
    again, n = kept.ask(WORDS * 12)
    assert again == first and n >= 2 * BLOCK


def test_salt_and_cache_prompt_also_hold_in_the_tier(make_kept):
    kept = make_kept()
    assert kept.ask(WORDS * 12, cache_prompt=False)[1] == 0
    kept.restart_chat()
    assert kept.ask(WORDS * 12)[1] == 0
    kept.restart_chat()
    assert kept.ask(WORDS * 12, cache_prompt=False)[1] == 0
    assert kept.ask(WORDS * 12, cache_salt="a")[1] == 0
    kept.restart_chat()
    assert kept.ask(WORDS * 12, cache_salt="b")[1] == 0
    assert kept.ask(WORDS * 12, cache_salt="a")[1] > 0


@pytest.mark.parametrize("kv_type", ["f32", "f16", "bf16", "fp8"])
def test_the_text_is_the_same_for_all_numbers(make_kept, kv_type):
    kept = make_kept("  kv_type: %s\n" % kv_type)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        prompts = [WORDS * 12 + "Number %d. " % i * (i % 3) for i in range(8)]
        first = list(pool.map(kept.ask, prompts))
        # If reading is slower than computing, as on a busy machine, the engine computes.
        for _ in range(4):
            kept.restart_chat()
            again = list(pool.map(kept.ask, prompts))
            assert [text for text, _ in first] == [text for text, _ in again]
            if all(n >= BLOCK for _, n in again):
                return
    pytest.fail("no run read all prompts back")


def test_without_the_service_all_is_computed(make_kept):
    kept = make_kept()
    first, _ = kept.ask(WORDS * 12)
    kept.restart_chat()
    for segment in [os.path.join(d, f) for d, _, files in os.walk(kept.directory) for f in files]:
        with open(segment, "r+b") as f:
            f.truncate(0)
    again, _ = kept.ask(WORDS * 12)
    assert again == first


def post(suite, headers):
    connection = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({"model": "plain", "prompt": "Once", "max_tokens": 2}),
                       {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response, body


def test_sessions_have_names(suite):
    response, _ = post(suite, {"X-Session-Id": "talk-1.a:b_C"})
    assert response.status == 200 and response.headers["x-session-id"] == "talk-1.a:b_C"
    response, _ = post(suite, {})
    assert response.status == 200 and "x-session-id" not in response.headers
    for bad in ("", "a b", "a/b", "x" * 65, "ä"):
        response, body = post(suite, {"X-Session-Id": bad.encode()})
        assert response.status == 400, bad
        assert body["error"]["param"] == "X-Session-Id" and body["error"]["code"] == "invalid_value"
