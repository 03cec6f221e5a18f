# SPDX-License-Identifier: Apache-2.0
"""Tests large and odd bodies: their memory use is bounded, and a NUL character does not end a
name."""
import http.client
import json
import threading
import time

import pytest

from conftest import ROOT, SLOW, Suite, check_log, own_metrics

MIB = 1 << 20
BODY = 16 * MIB - 400  # the largest body that passes the gateway, minus the text around the content
PEAK = 256 * MIB       # the maximum memory for one request, as docs/security.md says
CHAT = b'{"model":"tiny","messages":[{"role":"user","content":"%s"%s}]%s}'
VALUES = b"{}," * (BODY // 3) + b"{}"


def arguments(n):
    call = b'{"function":{"name":"f","arguments":"{\\"a\\":[%s]}"}}' % (b"{}," * 6000 + b"{}")
    return b",".join([call] * (n // len(call)))


BODIES = {
    # Two bytes of text take 230 bytes of memory.
    "messages": ("/v1/chat/completions", b'{"model":"tiny","messages":[%s]}' % VALUES,
                 "too_many_values"),
    "annotations": ("/v1/chat/completions", CHAT % (b"x", b',"annotations":[%s]' % VALUES, b""),
                    "too_many_values"),
    "variables": ("/v1/chat/completions",
                  CHAT % (b"x", b"", b',"chat_template_kwargs":{"a":[%s]}' % VALUES),
                  "too_many_values"),
    "arguments": ("/v1/chat/completions",
                  b'{"model":"tiny","messages":[{"role":"assistant","tool_calls":[%s]}]}' %
                  arguments(BODY), "too_many_values"),
    "ids": ("/v1/completions", b'{"model":"tiny","prompt":[%s1]}' % (b"1," * (BODY // 2)),
            "too_many_values"),
    # The service does not tokenize text that cannot fit the context.
    "text": ("/v1/chat/completions", CHAT % (b"some words " * (BODY // 11), b"", b""),
             "context_length_exceeded"),
    "digits": ("/v1/chat/completions", CHAT % (b"1" * BODY, b"", b""), "context_length_exceeded"),
    "prompt": ("/v1/completions", b'{"model":"tiny","prompt":"%s"}' % (b"1" * BODY),
               "context_length_exceeded"),
    "tokenize": ("/tokenize", b'{"model":"tiny","content":"%s"}' % (b"1" * BODY),
                 "value_too_long"),
    "vectors": ("/v1/embeddings", b'{"model":"bert-mean","input":[%s]}' % VALUES,
                "too_many_values"),
    "vector": ("/v1/embeddings", b'{"model":"bert-mean","truncate":true,"input":"%s"}' %
               (b"," * BODY), "value_too_long"),
}


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("bodies")
    (path / "tiny.gguf").symlink_to(model_dir / "tiny.gguf")
    (path / "bert-mean").symlink_to(ROOT / "tests/golden/embed/bert-mean")
    return path


@pytest.fixture
def suite(models):
    suite = Suite(models)
    yield suite
    check_log(suite.close())


def post(suite, path, body, timeout=120):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=timeout * SLOW)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    c.request("POST", path, data, {"content-type": "application/json"})
    r = c.getresponse()
    answer = json.loads(r.read())
    c.close()
    return r.status, answer


def memory(service, name):
    with open("/proc/%d/status" % service.process.pid) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))


@pytest.mark.parametrize("name", BODIES)
def test_no_body_takes_much_memory_or_stops_the_service(suite, name):
    path, body, code = BODIES[name]
    embeds = "embed" in path
    service, sock = (suite.embed, suite.embed_sock) if embeds else (suite.chat, suite.chat_sock)
    small = {"model": "bert-mean", "input": "x"} if embeds else {"model": "tiny", "prompt": "x",
                                                                 "max_tokens": 1}
    assert len(body) < 16 * MIB
    assert post(suite, "/v1/embeddings" if embeds else "/v1/completions", small)[0] == 200
    before, answers, worst = memory(service, "VmHWM"), [], 0
    thread = threading.Thread(target=lambda: answers.append(post(suite, path, body)))
    thread.start()
    while thread.is_alive():
        start = time.monotonic()
        own_metrics(sock)
        worst = max(worst, time.monotonic() - start)
        time.sleep(0.01)
    thread.join()
    status, answer = answers[0]
    assert status == 400 and answer["error"]["code"] == code, answer
    assert worst < 1 * SLOW
    if SLOW == 1:  # sanitizers use additional memory
        assert memory(service, "VmHWM") - before < PEAK


MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("path, body, param", [
    ("/v1/chat/completions", {"model": "tiny\0x", "messages": MESSAGES}, "model"),
    ("/v1/completions", {"model": "tiny\0", "prompt": "x"}, "model"),
    ("/tokenize", {"model": "tiny\0x", "content": "x"}, "model"),
    ("/v1/embeddings", {"model": "bert-mean\0x", "input": "x"}, "model"),
    ("/v1/completions", {"prompt": "x", "kv_type": "f16\0"}, "kv_type"),
    ("/v1/completions", {"prompt": "x", "service_tier": "auto\0x"}, "service_tier"),
    ("/v1/chat/completions", {"messages": [{"role": "user\0x", "content": "Hi"}]},
     "messages[0].role"),
    ("/v1/chat/completions",
     {"messages": [{"role": "user", "content": [{"type": "text\0x", "text": "Hi"}]}]},
     "messages[0].content[0]"),
    ("/v1/chat/completions", {"messages": MESSAGES, "tool_choice": "none\0x"}, "tool_choice"),
    ("/v1/chat/completions", {"messages": MESSAGES, "response_format": {"type": "text\0x"}},
     "response_format"),
    ("/v1/chat/completions", {"messages": MESSAGES, "modalities": ["text\0x"]}, "modalities"),
    ("/v1/embeddings", {"model": "bert-mean", "input": "x", "encoding_format": "float\0x"},
     "encoding_format"),
    ("/v1/embeddings", {"model": "bert-mean", "input": "x", "truncate": "end\0x"}, "truncate"),
    ("/v1/embeddings", {"model": "bert-mean", "input": "x", "truncate": True,
                        "truncation_direction": "left\0x"}, "truncation_direction"),
    ("/v1/embeddings", {"model": "bert-mean", "input": "x", "prompt_name": "query\0x"},
     "prompt_name"),
    ("/v1/embeddings", {"model": "bert-mean", "input": "x", "task": "x\0x"}, "task"),
])
def test_a_word_with_a_nul_is_another_word(shared, path, body, param):
    status, answer = post(shared, path, body)
    assert status == 400, answer
    assert answer["error"]["param"] == param, answer


def test_text_may_have_a_nul(shared):
    status, answer = post(shared, "/v1/completions",
                          {"prompt": "a\0b", "max_tokens": 1, "stop": "x\0y", "cache_salt": "s\0t",
                           "user": "u\0v"})
    assert status == 200, answer
    assert post(shared, "/v1/embeddings", {"model": "bert-mean", "input": "a\0b"})[0] == 200
    status, answer = post(shared, "/apply-template",
                          {"messages": [{"role": "user", "content": "a\0b"}]})
    assert status == 200 and "a\0b" in answer["prompt"]


@pytest.fixture(scope="module")
def shared(models):
    suite = Suite(models)
    yield suite
    check_log(suite.close())
