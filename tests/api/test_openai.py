# SPDX-License-Identifier: Apache-2.0
"""Tests the gateway with the official openai client: supported calls behave as at
api.openai.com."""
import asyncio
import concurrent.futures
import json
import urllib.request

import pytest

openai = pytest.importorskip("openai")

STORY = [{"role": "user", "content": "Once upon a time"}]

pytestmark = pytest.mark.sanitize


def chat(client, **kw):
    args = dict(model="tiny", messages=STORY, max_tokens=12, temperature=0)
    return client.chat.completions.create(**{**args, **kw})


def complete(client, **kw):
    args = dict(model="plain", prompt="Once upon a time", max_tokens=12, temperature=0)
    return client.completions.create(**{**args, **kw})


def post(suite, path, body):
    request = urllib.request.Request(suite.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))


def test_models_are_listed_by_name(client):
    models = {m.id: m for m in client.models.list()}
    assert set(models) == {"plain", "tiny"}
    assert models["tiny"].owned_by == "sconce" and models["tiny"].created > 0
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError) as e:
        client.models.retrieve("org/none")
    assert e.value.code == "model_not_found" and "plain, tiny" in e.value.message


def test_chat_answers_with_usage(client, stories):
    r = chat(client)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-")
    assert r.model == "tiny" and r.system_fingerprint
    choice = r.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason == "length" and choice.logprobs is None
    assert r.usage.completion_tokens == 12
    assert r.usage.total_tokens == r.usage.prompt_tokens + 12
    assert r.usage.prompt_tokens_details.cached_tokens >= 0


def test_greedy_answers_repeat(client):
    assert chat(client).choices[0].message.content == chat(client).choices[0].message.content


def test_default_model_answers_requests_that_name_none(suite):
    r = post(suite, "/v1/chat/completions", {"messages": STORY, "max_tokens": 2})
    assert r["model"] == "tiny"


def test_stream_says_the_same_as_one_piece(client):
    whole = chat(client, max_tokens=30)
    chunks = list(chat(client, max_tokens=30, stream=True,
                       stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == \
        whole.choices[0].finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(c.usage is None for c in chunks[:-1])
    assert len({c.id for c in chunks}) == 1
    assert all(c.object == "chat.completion.chunk" for c in chunks)


def test_stream_without_usage_has_none(client):
    assert all(c.choices for c in chat(client, stream=True))


def test_several_choices(client, stories):
    r = chat(client, n=3, temperature=1, seed=7)
    assert [c.index for c in r.choices] == [0, 1, 2]
    assert len({c.message.content for c in r.choices}) > 1
    assert r.usage.completion_tokens == 36
    seen = {}
    for c in chat(client, n=3, temperature=1, seed=7, stream=True):
        for choice in c.choices:
            seen.setdefault(choice.index, []).append(choice.delta.content or "")
    assert {i: "".join(t) for i, t in seen.items()} == \
        {c.index: c.message.content for c in r.choices}


def test_seed_repeats(client):
    def run(seed):
        return chat(client, temperature=1.5, seed=seed, max_tokens=40).choices[0].message.content
    assert run(1) == run(1) != run(2)


def test_logprobs_have_bytes_and_alternatives(client, stories):
    r = chat(client, logprobs=True, top_logprobs=3)
    content = r.choices[0].logprobs.content
    assert len(content) == 12
    assert b"".join(bytes(t.bytes) for t in content).decode() == r.choices[0].message.content
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)
        assert token.logprob <= 0
    streamed = [t for c in chat(client, logprobs=True, top_logprobs=3, stream=True)
                for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
    assert [t.token for t in streamed] == [t.token for t in content]


def test_stop_strings_end_an_answer(client, stories):
    whole = chat(client, max_tokens=40).choices[0].message.content
    stop = whole[10:14]
    r = chat(client, max_tokens=40, stop=[stop, "\u00ff"])
    assert r.choices[0].finish_reason == "stop"
    assert r.choices[0].message.content == whole[:whole.index(stop)]
    text = "".join(c.choices[0].delta.content or ""
                   for c in chat(client, max_tokens=40, stop=stop, stream=True))
    assert text == r.choices[0].message.content


def test_logit_bias_forbids(client):
    first = chat(client, logprobs=True, max_tokens=1).choices[0].logprobs.content[0].token
    ids = post_ids(client, first)
    other = chat(client, logprobs=True, max_tokens=1, logit_bias={str(ids[-1]): -100})
    assert other.choices[0].logprobs.content[0].token != first


def post_ids(client, text):
    request = urllib.request.Request(
        str(client.base_url).replace("/v1/", "/tokenize"),
        json.dumps({"content": text, "model": "tiny"}).encode())
    return json.load(urllib.request.urlopen(request))["tokens"]


def test_text_parts_are_joined(client):
    parts = [{"role": "user", "content": [{"type": "text", "text": "Once upon"},
                                          {"type": "text", "text": "a time"}]}]
    joined = [{"role": "user", "content": "Once upon\na time"}]
    assert chat(client, messages=parts).usage.prompt_tokens == \
        chat(client, messages=joined).usage.prompt_tokens


def test_template_variables_reach_the_template(client, suite):
    def prompt(**kw):
        return post(suite, "/apply-template", {"model": "tiny", "messages": STORY, **kw})["prompt"]
    assert prompt() == "<user>Once upon a time\n<assistant>"
    assert prompt(enable_thinking=True).endswith("<think>")
    assert prompt(chat_template_kwargs={"enable_thinking": True}).endswith("<think>")
    assert prompt(add_generation_prompt=False) == "<user>Once upon a time\n"
    assert chat(client, extra_body={"enable_thinking": True}).usage.prompt_tokens > \
        chat(client).usage.prompt_tokens


def test_extra_samplers_are_honoured(client):
    r = chat(client, temperature=2, seed=1, extra_body={"top_k": 1})
    assert r.choices[0].message.content == chat(client).choices[0].message.content
    chat(client, top_p=0.5, presence_penalty=1, frequency_penalty=-1, user="u", metadata={},
         store=False, tools=[], tool_choice="none", response_format={"type": "text"},
         extra_body={"min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.1,
                     "ignore_eos": True, "skip_special_tokens": False})


def test_a_window_without_tokens_switches_the_repetition_penalty_off(client):
    plain, strict, off = (chat(client, max_tokens=64, extra_body=fields).choices[0].message.content
                          for fields in ({}, {"repetition_penalty": 9},
                                         {"repetition_penalty": 9, "repeat_last_n": 0}))
    assert plain == off != strict


def test_completion_prompts_in_all_forms(client, suite):
    text = complete(client).choices[0].text
    ids = post(suite, "/tokenize", {"content": "Once upon a time", "model": "plain",
                                    "add_special": True})["tokens"]
    assert complete(client, prompt=ids).choices[0].text == text
    r = complete(client, prompt=["Once upon a time", "The cat"], n=2)
    assert [c.index for c in r.choices] == [0, 1, 2, 3]
    assert r.choices[0].text == r.choices[1].text == text != r.choices[2].text
    r = complete(client, prompt=[ids, ids])
    assert [c.text for c in r.choices] == [text, text]
    assert r.usage.prompt_tokens == 2 * len(ids)


def test_completion_is_sixteen_tokens_by_default(client):
    r = client.completions.create(model="plain", prompt="Once upon a time", temperature=0)
    assert r.usage.completion_tokens == 16


def test_echo_and_legacy_logprobs(client):
    r = complete(client, echo=True, logprobs=2, max_tokens=5)
    choice, lp = r.choices[0], r.choices[0].logprobs
    assert choice.text.startswith("Once upon a time")
    n = r.usage.prompt_tokens + 5
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.text_offset) == n
    assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
    for token, offset in list(zip(lp.tokens, lp.text_offset))[2:]:
        assert choice.text[offset:].startswith(token)
    scored = complete(client, echo=True, logprobs=0, max_tokens=0)
    assert scored.choices[0].text == "Once upon a time"
    assert scored.choices[0].logprobs.token_logprobs[1:] == \
        pytest.approx(lp.token_logprobs[1:r.usage.prompt_tokens], abs=1e-4)
    assert scored.usage.completion_tokens == 0


def test_completion_streams(client):
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}, echo=True))
    text = "".join(c.choices[0].text for c in chunks if c.choices)
    assert text == complete(client, echo=True).choices[0].text
    assert chunks[-1].usage.completion_tokens == 12
    assert chunks[-2].choices[0].finish_reason == "length"


def test_tokenize_and_back(suite):
    text = "Once upon a time, Lily said \u00e9\u20ac"
    r = post(suite, "/tokenize", {"content": text, "model": "tiny"})
    back = post(suite, "/detokenize", {"tokens": r["tokens"], "model": "tiny"})["content"]
    assert back.strip() == text
    pieces = post(suite, "/tokenize", {"prompt": text, "with_pieces": True, "model": "tiny"})
    assert [p["id"] for p in pieces["tokens"]] == r["tokens"]
    whole = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode()
                     for p in pieces["tokens"])
    assert whole.decode().strip() == text


def test_many_at_once_get_their_own_answers(client):
    prompts = ["Once upon a time", "The cat", "A big dog", "She was", "He had"]
    alone = {p: complete(client, prompt=p, max_tokens=40).choices[0].text for p in prompts}
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        jobs = [(p, pool.submit(complete, client, prompt=p, max_tokens=40))
                for p in prompts * 8]
        for prompt, job in jobs:
            assert job.result().choices[0].text == alone[prompt]


def test_async_client_streams(suite):
    async def one(client, i):
        text = ""
        stream = await client.chat.completions.create(
            model="tiny", messages=STORY, max_tokens=20 + i, temperature=0, stream=True)
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
        return text

    async def run():
        async with openai.AsyncOpenAI(base_url=suite.url + "/v1", api_key="x",
                                      max_retries=0, timeout=60) as client:
            return await asyncio.gather(*(one(client, i) for i in range(16)))

    texts = asyncio.run(run())
    assert all(b.startswith(a) for a, b in zip(texts, texts[1:]))


def test_request_ids_pass_through(client):
    r = client.chat.completions.with_raw_response.create(
        model="tiny", messages=STORY, max_tokens=1, extra_headers={"x-request-id": "mine-1.2"})
    assert r.headers["x-request-id"] == "mine-1.2"
    r = client.chat.completions.with_raw_response.create(
        model="tiny", messages=STORY, max_tokens=1, extra_headers={"x-request-id": "a b"})
    assert r.headers["x-request-id"].startswith("req_")
