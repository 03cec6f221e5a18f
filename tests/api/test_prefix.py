# SPDX-License-Identifier: Apache-2.0
"""Tests that shared prefixes of prompts are computed once. Only the field `usage` of an answer shows
this; the texts are the same as without sharing."""
import concurrent.futures
import http.client
import json
import socket

import pytest

openai = pytest.importorskip("openai")

BLOCK = 64  # tokens
WORDS = "Once upon a time there was a little girl named Lily. She loved to play outside in the park. "


@pytest.fixture
def ask(make_suite):
    """Provides a function that starts a suite for each configuration and asks it with the official
    client."""
    def make(chat=""):
        suite = make_suite(chat="  context: 512\n" + chat)
        client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)

        def complete(prompt, extra_body=None, **kw):
            args = dict(model="plain", max_tokens=12, temperature=0)
            r = client.completions.create(prompt=prompt, extra_body=extra_body, **{**args, **kw})
            return r.choices[0].text, r.usage.prompt_tokens_details.cached_tokens, r.usage.prompt_tokens
        complete.suite, complete.client = suite, client
        return complete

    return make


def test_the_next_turn_of_a_chat_finds_the_last_one(ask, stories):
    client = ask().client
    without = {"cache_prompt": False}
    turns, cached = [], []
    for i in range(3):
        turns.append({"role": "user", "content": WORDS + "Turn %d." % i})
        args = dict(model="tiny", messages=turns, max_tokens=40, temperature=0)
        r = client.chat.completions.create(**args)
        cached.append(r.usage.prompt_tokens_details.cached_tokens)
        alone = client.chat.completions.create(**args, extra_body=without)
        assert alone.usage.prompt_tokens_details.cached_tokens == 0
        assert alone.choices[0].message.content == r.choices[0].message.content
        turns.append({"role": "assistant", "content": r.choices[0].message.content})
    assert cached[0] == 0 < cached[1] < cached[2]
    turns.pop()
    stream = list(client.chat.completions.create(**args, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == r.choices[0].message.content
    usage = stream[-1].usage
    assert usage.prompt_tokens - BLOCK <= usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


@pytest.mark.parametrize("kv_type", ["f32", "f16", "bf16"])
def test_the_text_is_the_same_for_all_numbers(ask, kv_type):
    complete = ask("  kv_type: %s\n" % kv_type)
    for n, sampling in enumerate([{}, {"temperature": 1, "seed": 5}]):
        first = complete(WORDS * 3, {"cache_salt": str(n)}, **sampling)
        again = complete(WORDS * 3, {"cache_salt": str(n)}, **sampling)
        assert first[0] == again[0] == complete(WORDS * 3, {"cache_prompt": False}, **sampling)[0]
        assert first[1] == 0 and again[1] >= BLOCK


def test_whole_blocks_are_shared_and_one_token_is_computed(ask):
    complete = ask()
    tokens = json.loads(post(complete.suite, "/tokenize", {"model": "plain", "content": WORDS * 5}))["tokens"]
    assert len(tokens) > 2 * BLOCK + 10
    assert complete(tokens[:2 * BLOCK + 9])[1:] == (0, 2 * BLOCK + 9)
    assert complete(tokens[:2 * BLOCK + 10])[1] == 2 * BLOCK
    assert complete(tokens[:2 * BLOCK])[1] == 2 * BLOCK - 1
    assert complete(tokens[:BLOCK + 5] + tokens[:BLOCK])[1] == BLOCK
    assert complete(tokens[1:2 * BLOCK])[1] == 0
    metrics = complete.suite.chat_metrics()
    assert metrics["sconce_chat_cached_tokens_total"] == 2 * BLOCK + 2 * BLOCK - 1 + BLOCK
    assert metrics["sconce_chat_kv_blocks_idle"] >= 2 and metrics["sconce_chat_kv_blocks_used"] == 0


def test_salt_and_cache_prompt_keep_apart(ask):
    complete = ask()
    prompt = WORDS * 3
    assert complete(prompt, {"cache_prompt": False})[1] == 0
    assert complete(prompt)[1] == 0
    assert complete(prompt, {"cache_salt": "a"})[1] == 0
    assert complete(prompt, {"cache_salt": "b"})[1] == 0
    assert complete(prompt, {"cache_salt": "a"})[1] > 0
    assert complete(prompt, {"cache_prompt": False})[1] == 0
    assert complete(prompt, {"cache_prompt": True, "cache_salt": None})[1] > 0
    for bad, kind in (("", "empty"), (7, "string")):
        with pytest.raises(openai.BadRequestError) as e:
            complete(prompt, {"cache_salt": bad})
        assert e.value.param == "cache_salt" and kind in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        complete(prompt, {"cache_prompt": "yes"})
    assert e.value.param == "cache_prompt"


def test_the_cache_can_be_switched_off(ask):
    complete = ask("  prefix_cache: false\n")
    assert [complete(WORDS * 3)[1] for _ in range(2)] == [0, 0]


def test_log_probabilities_of_a_prompt_are_computed(ask):
    complete = ask()
    complete(WORDS * 3)
    assert complete(WORDS * 3, echo=True, logprobs=1)[1] == 0
    assert complete(WORDS * 3, logprobs=1)[1] > 0


def test_a_crowd_with_one_beginning_computes_it_once(ask):
    complete = ask()
    prompts = [WORDS * 3 + "Number %d" % i for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        crowd = list(pool.map(complete, prompts))
    assert sum(cached > 0 for _, cached, _ in crowd) >= 7
    for prompt, (text, _, _) in zip(prompts, crowd):
        assert complete(prompt, {"cache_prompt": False})[0] == text


def post(suite, path, body, door="tcp", headers={}):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    if door == "unix":
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(suite.gateway_sock)
    c.request("POST", path, json.dumps(body), headers)
    data = c.getresponse().read()
    c.close()
    return data


def cached_by(suite, door="tcp", **headers):
    body = {"model": "plain", "prompt": WORDS * 3, "max_tokens": 1}
    answer = post(suite, "/v1/completions", body, door, {k.replace("_", "-"): v for k, v in headers.items()})
    return json.loads(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_each_key_has_its_own_cache(make_suite):
    suite = make_suite(gateway="  api_keys: [one, two]\n  tcp_access: key\n")
    assert cached_by(suite, x_api_key="one") == 0
    assert cached_by(suite, x_api_key="two") == 0
    assert cached_by(suite, Authorization="Bearer one") > 0
    # The unix socket identifies users, not keys.
    assert cached_by(suite, "unix") == 0
    assert cached_by(suite, "unix") > 0


def test_no_client_can_claim_to_be_another_tenant(make_suite):
    suite = make_suite()
    assert cached_by(suite) == 0
    assert cached_by(suite, x_sconce_tenant="mine alone") > 0
    assert cached_by(suite, "unix", x_sconce_tenant="tcp") == 0
