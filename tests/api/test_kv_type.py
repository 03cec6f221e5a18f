# SPDX-License-Identifier: Apache-2.0
"""Tests the number types of the KV cache, which the configuration or a request sets."""
import concurrent.futures
import json
import re
import shutil
import urllib.request

import pytest

from conftest import ROOT, Suite, check_log, get_unix
from test_tier import CACHE, Kept

openai = pytest.importorskip("openai")

BLOCK = 64  # tokens
GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
TYPES = ["f32", "bf16", "fp8", "q8_0", "q4_0", "q8_0:q4_0", "q4_0:fp8", "q4_0+recent",
         "q8_0/1-2=q4_0/0=f16:q4_0", "q4_0+recent/1=affine4_32:q8_0", "affine4_32:turbo4", "iso3:planar4", "turbo4:affine4_32+recent"]
WORDS = "What is sconce, and which services does it have? " * 12
pytestmark = pytest.mark.long


@pytest.fixture
def guide(tmp_path):
    """Provides suites with the bundled model, whose heads have 32 elements, and a function to query
    them."""
    shutil.copy(GUIDE, tmp_path / "guide.gguf")
    suites = []

    def make(chat=""):
        suite = Suite(tmp_path, chat="  context: 1024\n" + chat)
        suites.append(suite)
        client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)

        def complete(prompt, kv_type=None, **body):
            if kv_type:
                body["kv_type"] = kv_type
            r = client.completions.create(model="guide", prompt=prompt, max_tokens=16,
                                          temperature=0, extra_body=body)
            return r.choices[0].text, r.usage.prompt_tokens_details.cached_tokens
        complete.suite, complete.client = suite, client
        return complete

    yield make
    for suite in suites:
        check_log(suite.close())


def loads(complete):
    return complete.suite.chat_metrics()["sconce_chat_model_loads_total"]


@pytest.mark.parametrize("kv_type", TYPES)
def test_the_text_is_the_same_with_the_cache_and_without(guide, kv_type):
    complete = guide("  kv_type: %s\n" % kv_type)
    first = complete(WORDS)
    again = complete(WORDS)
    assert first[0] == again[0] == complete(WORDS, cache_prompt=False)[0]
    assert first[1] == 0 and again[1] >= BLOCK


def test_a_long_type_does_not_break_the_metrics(guide):
    complete = guide()
    complete("Hi", kv_type="f16" + "/0=f16" * 100)
    lines = [line for line in get_unix(complete.suite.chat_sock, "/metrics").decode().splitlines() if line[0] != "#"]
    assert any('kv_type="f16/0=f16' in line for line in lines)
    for line in lines:
        assert re.fullmatch(r'[\w:]+(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+', line), line


@pytest.mark.skipif(not CACHE.exists(), reason="no cache service in this build")
def test_blocks_of_all_types_outlive_the_service(tmp_path):
    shutil.copy(GUIDE, tmp_path / "plain.gguf")
    # With the reference kernels in plain C, computing blocks is slower than reading them from the
    # cache.
    suite = Suite(tmp_path, chat="  context: 1024\n  isa: ref\n")
    kept = Kept(suite, tmp_path)
    try:
        first = {t: kept.ask(WORDS, kv_type=t)[0] for t in TYPES}
        kept.restart_chat()
        for t in TYPES:
            again, n = kept.ask(WORDS, kv_type=t)
            assert again == first[t] and n >= BLOCK
    finally:
        kept.close()
        check_log(suite.close())


def test_a_type_in_a_request_works_like_one_in_the_configuration(guide):
    by_request = guide()
    for kv_type in TYPES:
        assert by_request(WORDS, kv_type) == guide("  kv_type: %s\n" % kv_type)(WORDS)


def test_types_are_kept_apart(guide):
    complete = guide("  max_models: 2\n")
    plain = complete(WORDS)
    assert plain[1] == 0
    assert complete(WORDS, "q8_0")[1] == 0
    assert complete(WORDS, "q8_0")[1] >= BLOCK
    assert complete(WORDS)[0] == plain[0] and complete(WORDS)[1] >= BLOCK
    assert loads(complete) == 2
    metrics = complete.suite.chat_metrics()
    assert 'sconce_chat_threads{model_name="guide"}' in metrics
    assert 'sconce_chat_threads{model_name="guide",kv_type="q8_0"}' in metrics


def in_use(complete):
    with urllib.request.urlopen(complete.suite.url + "/api/ps") as answer:
        return json.load(answer)["models"][0]["kv_type"]


def test_auto_means_the_most_precise_type_that_fits(guide):
    wide, narrow, named = guide(), guide("  kv_memory: 1MiB\n"), guide("  kv_type: q8_0\n")
    assert wide(WORDS)[0] and in_use(wide) == "f16"
    assert "keys and values in f16" in open(wide.suite.log_path).read()
    # 1,024 tokens take 1.5 MiB in f16 and 0.8 MiB in q8_0.
    assert narrow(WORDS) == named(WORDS) and in_use(narrow) == in_use(named) == "q8_0"
    # The same type by name needs no other engine.
    assert narrow(WORDS, "q8_0")[1] >= BLOCK and narrow(WORDS, "auto")[1] >= BLOCK
    assert loads(narrow) == 1


def test_names_of_one_meaning_share_an_engine(guide):
    complete = guide("  kv_type: q8_0:q8_0\n")
    assert complete(WORDS)[1] == 0
    assert complete(WORDS, "q8_0")[1] >= BLOCK
    assert complete(WORDS, "q8_0:q8_0")[1] >= BLOCK
    assert loads(complete) == 1


def test_engines_with_different_types_make_room_for_each_other(guide):
    complete = guide("  max_models: 1\n")
    texts = {t: complete(WORDS, t)[0] for t in TYPES}
    for t in reversed(TYPES):
        assert complete(WORDS, t)[0] == texts[t]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [(t, pool.submit(complete, WORDS, t)) for t in TYPES * 3]
        for t, job in jobs:
            assert job.result()[0] == texts[t]


def test_unknown_types_are_refused_by_name(guide):
    complete = guide()
    for bad in ("q9", "f16:", ":f16", "f16:f16:f16", "q4_0+new", "+recent", "f16+recent", "", "any", "F16", "f16\0", 7):
        with pytest.raises(openai.BadRequestError) as e:
            complete.client.completions.create(model="guide", prompt="x", extra_body={"kv_type": bad})
        assert e.value.param == "kv_type"


def test_types_that_do_not_fit_the_model_are_refused_and_unload_nothing(make_suite, stories):
    suite = make_suite(chat="  context: 512\n")
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)
    ask = lambda **body: client.completions.create(model="plain", prompt="Once", max_tokens=4,
                                                   extra_body=body)

    def refused(**body):
        with pytest.raises(openai.BadRequestError) as e:
            ask(**body)
        assert e.value.param == "kv_type" and "multiple of 32" in e.value.message

    refused(kv_type="q8_0")
    ask()
    refused(kv_type="fp8:q4_0")
    assert suite.chat_metrics()["sconce_chat_model_loads_total"] == 1
    assert ask(kv_type="fp8").usage.completion_tokens == 4
