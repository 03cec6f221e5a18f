# SPDX-License-Identifier: Apache-2.0
"""Tests error answers: status, code, the field's name, and a sentence that says what is wrong."""
import time
import json
import urllib.error
import urllib.request

import pytest

try:
    import openai
except ImportError:  # tests that need it are skipped
    openai = None
needs_openai = pytest.mark.skipif(openai is None, reason="no openai package")

STORY = [{"role": "user", "content": "Once upon a time"}]

pytestmark = pytest.mark.sanitize


def send(suite, path, body, method="POST", headers=None):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(suite.url + path, data, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as r:
            return r.status, json.load(r), r.headers
    except urllib.error.HTTPError as e:
        return e.code, json.load(e), e.headers


def refused(suite, path, body, status, code, param):
    got, answer, _ = send(suite, path, body)
    error = answer["error"]
    assert (got, error["code"], error["param"]) == (status, code, param), answer
    assert error["message"] and set(error) == {"message", "type", "param", "code"}
    return error


def tool(name, **fields):
    return {"type": "function", "function": {"name": name, **fields}}


CHAT_FIELDS = [
    ({"temperature": "warm"}, "invalid_type", "temperature"),
    ({"temperature": 3}, "invalid_value", "temperature"),
    ({"temperature": True}, "invalid_type", "temperature"),
    ({"top_p": -0.1}, "invalid_value", "top_p"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": 1.5}, "invalid_type", "max_tokens"),
    ({"max_completion_tokens": -2}, "invalid_value", "max_completion_tokens"),
    ({"n": 0}, "invalid_value", "n"),
    ({"n": 1000}, "invalid_value", "n"),
    ({"stop": [""]}, "invalid_value", "stop"),
    ({"stop": ["a"] * 17}, "invalid_value", "stop"),
    ({"stop": {}}, "invalid_type", "stop"),
    ({"logit_bias": {"x": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"1": 101}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"999999": 1}}, "invalid_value", "logit_bias"),
    ({"top_logprobs": 2}, "invalid_value", "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "unknown_field", "stream_options.x"),
    ({"stream": "yes"}, "invalid_type", "stream"),
    ({"tools": {}}, "invalid_type", "tools"),
    ({"tools": [{"type": "function"}]}, "missing_field", "tools[0].function"),
    ({"tools": [{"type": "web_search"}]}, "invalid_value", "tools[0].type"),
    ({"tools": [tool("f"), {"type": "function", "function": {"name": "a b"}}]}, "invalid_value",
     "tools[1].function.name"),
    ({"tools": [tool("f"), tool("f")]}, "invalid_value", "tools[1]"),
    ({"tools": [tool("f", parameters=[])]}, "invalid_type", "tools[0].function.parameters"),
    ({"tools": [tool("f", extra=1)]}, "unknown_field", "tools[0].function.extra"),
    ({"tools": [{"type": "custom", "custom": {"name": "f", "format": {
        "type": "grammar", "grammar": {"syntax": "ebnf", "definition": "a"}}}}]}, "invalid_value",
     "tools[0].custom.format.grammar.syntax"),
    ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ({"tools": [tool("f")], "tool_choice": "some"}, "invalid_value", "tool_choice"),
    ({"tools": [tool("f")], "tool_choice": {"type": "function", "function": {"name": "g"}}},
     "invalid_value", "tool_choice"),
    ({"tools": [tool("f")], "parallel_tool_calls": 1}, "invalid_type", "parallel_tool_calls"),
    ({"functions": [{"name": "f"}]}, "unsupported_parameter", "functions"),
    ({"function_call": {"name": "f"}}, "unsupported_parameter", "function_call"),
    ({"response_format": {"type": "xml"}}, "unsupported_parameter", "response_format"),
    ({"response_format": {"type": "json_schema"}}, "missing_field", "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": 1}}},
     "invalid_type", "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "invalid_value",
     "guided_regex"),
    ({"guided_choice": ["a", 1]}, "invalid_type", "guided_choice"),
    ({"structured_outputs": {"structural_tag": "a"}}, "unknown_field",
     "structured_outputs.structural_tag"),
    ({"thinking_budget": -2}, "invalid_value", "thinking_budget"),
    ({"reasoning_effort": "huge"}, "invalid_value", "reasoning_effort"),
    ({"response_format": "json"}, "invalid_type", "response_format"),
    ({"modalities": ["text", "audio"]}, "unsupported_parameter", "modalities"),
    ({"audio": {}}, "unsupported_parameter", "audio"),
    ({"prediction": {}}, "unsupported_parameter", "prediction"),
    ({"store": True}, "unsupported_value", "store"),
    ({"documents": [{"text": "a"}]}, "unsupported_parameter", "documents"),
    ({"chat_template_kwargs": {"messages": []}}, "invalid_value", "chat_template_kwargs"),
    ({"seed": "1"}, "invalid_type", "seed"),
    ({"user": 1}, "invalid_type", "user"),
    ({"max_token": 1}, "unknown_field", "max_token"),
    ({"model": 1}, "invalid_type", "model"),
    ({"messages": "hi"}, "invalid_type", "messages"),
    ({"messages": []}, "empty_array", "messages"),
    ({"messages": None}, "missing_field", "messages"),
    ({"messages": ["hi"]}, "invalid_type", "messages[0]"),
    ({"messages": [{"content": "a"}]}, "missing_field", "messages[0].role"),
    ({"messages": [{"role": "king", "content": "a"}]}, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "missing_field", "messages[0].content"),
    ({"messages": [{"role": "user", "content": 1}]}, "invalid_type", "messages[0].content"),
    ({"messages": STORY + [{"role": "user", "content": "a", "x": 1}]}, "unknown_field",
     "messages[1].x"),
    ({"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "unsupported_content",
     "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "missing_field",
     "messages[0].content[0]"),
]


@pytest.mark.parametrize("fields,code,param", CHAT_FIELDS,
                         ids=[json.dumps(f)[:40] for f, _, _ in CHAT_FIELDS])
def test_chat_fields(suite, fields, code, param):
    body = {"model": "tiny", "messages": STORY, "max_tokens": 2, **fields}
    refused(suite, "/v1/chat/completions", body, 400, code, param)


COMPLETION_FIELDS = [
    ({"prompt": None}, "missing_field", "prompt"),
    ({"prompt": []}, "empty_prompt", "prompt"),
    ({"prompt": {}}, "invalid_type", "prompt"),
    ({"prompt": [[]]}, "empty_prompt", "prompt"),
    ({"prompt": [1, "a"]}, "invalid_type", "prompt"),
    ({"prompt": [999999]}, "invalid_value", "prompt"),
    ({"prompt": [-1]}, "invalid_value", "prompt"),
    ({"prompt": ["a"] * 100, "n": 2}, "invalid_value", "prompt"),
    ({"suffix": "end"}, "unsupported_parameter", "suffix"),
    ({"best_of": 3}, "unsupported_parameter", "best_of"),
    ({"logprobs": True}, "invalid_type", "logprobs"),
    ({"messages": STORY}, "unknown_field", "messages"),
]


@pytest.mark.parametrize("fields,code,param", COMPLETION_FIELDS,
                         ids=[json.dumps(f)[:40] for f, _, _ in COMPLETION_FIELDS])
def test_completion_fields(suite, fields, code, param):
    body = {"model": "tiny", "prompt": "a", "max_tokens": 2, **fields}
    refused(suite, "/v1/completions", body, 400, code, param)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model":"tiny","model":"tiny"}',
                                  b'{"model":"\xff"}', b"[" * 100000, b'{"a":1e999}', b"\0"])
def test_bodies_that_are_no_json_object(suite, body):
    status, answer, _ = send(suite, "/v1/chat/completions", body)
    assert status == 400 and answer["error"]["code"] in ("invalid_json", "invalid_type")


def test_client_exceptions(client):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="tiny", messages=STORY, temperature=9)
    assert e.value.param == "temperature" and e.value.code == "invalid_value"
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="gpt-9", messages=STORY)
    assert e.value.code == "model_not_found" and "tiny" in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="plain", messages=STORY)
    assert e.value.code == "no_chat_template"


def test_long_prompts_are_refused_with_numbers(suite, client):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model="tiny", prompt="Once upon a time " * 3000)
    assert e.value.code == "context_length_exceeded" and e.value.param == "prompt"
    assert "2048 tokens" in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "a b " * 4000}], stream=True)
    assert e.value.code == "context_length_exceeded" and e.value.param == "messages"


def test_answers_end_where_the_context_does(client):
    r = client.completions.create(model="tiny", prompt="Once", max_tokens=100000,
                                  extra_body={"ignore_eos": True})
    assert r.choices[0].finish_reason == "length"
    assert r.usage.total_tokens <= 2048


@needs_openai
def test_full_queue_is_429_with_retry_after(make_suite):
    suite = make_suite(chat="  max_sequences: 1\n  max_queue: 2\n")
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="x", max_retries=0)
    with pytest.raises(openai.RateLimitError) as e:
        client.completions.create(model="tiny", prompt=["a"] * 32, max_tokens=1000)
    assert e.value.code == "queue_full" and e.value.response.headers["retry-after"]
    assert client.with_options(max_retries=5).completions.create(model="tiny", prompt="a").choices


def test_urls_and_methods(suite):
    status, answer, _ = send(suite, "/v2/none", None, "GET")
    assert status == 404 and answer["error"]["code"] == "unknown_url"
    status, answer, headers = send(suite, "/v1/chat/completions", None, "GET")
    assert status == 405 and headers["allow"] == "POST"
    status, answer, headers = send(suite, "/v1/models", b"", "DELETE")
    assert status == 405 and headers["allow"] == "GET, HEAD"
    assert send(suite, "/v1/models/..%2f", None, "GET")[0] == 404
    assert send(suite, "/v1/../metrics", None, "GET")[0] == 404


def test_broken_models_are_named(suite, model_dir):
    broken = model_dir / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    try:
        # An unknown name makes the service scan again, unless its list of models is very recent.
        time.sleep(0.3)
        error = refused(suite, "/v1/completions", {"model": "broken", "prompt": "a"}, 400,
                        "model_unusable", "model")
        assert "broken" in error["message"]
    finally:
        broken.unlink()
    assert send(suite, "/v1/completions", {"model": "tiny", "prompt": "a"})[0] == 200


@needs_openai
def test_access_keys(make_suite):
    suite = make_suite(gateway="  api_keys: [first-key, second-key]\n")
    for key in ("first-key", "second-key"):
        client = openai.OpenAI(base_url=suite.url + "/v1", api_key=key, max_retries=0)
        assert client.models.list().data
    for key in ("first-ke", "first-keyy", "x", "first-key,second-key"):
        client = openai.OpenAI(base_url=suite.url + "/v1", api_key=key, max_retries=0)
        with pytest.raises(openai.AuthenticationError) as e:
            client.models.list()
        assert e.value.code == "invalid_api_key"
    assert send(suite, "/v1/models", None, "GET", {"x-api-key": "second-key"})[0] == 200
    assert send(suite, "/v1/models", None, "GET")[0] == 401
    assert send(suite, "/none", None, "GET")[0] == 401
    assert send(suite, "/health", None, "GET")[0] == 200


def test_cross_origin_requests_are_off_by_default(suite):
    """At an endpoint without keys, requests from web pages are rejected, even if the browser would
    hide the answer from the page."""
    page = {"Origin": "https://a.example"}
    status, body, headers = send(suite, "/v1/models", None, "GET", page)
    assert status == 403 and "access-control-allow-origin" not in headers
    assert body["error"]["code"] == "origin_not_allowed"
    assert send(suite, "/v1/chat/completions", {"model": "tiny", "messages": []},
                headers=page)[0] == 403
    assert send(suite, "/v1/models", None, "OPTIONS", {
        **page, "Access-Control-Request-Method": "POST"})[0] == 403


def test_cross_origin_requests_show_a_key_where_one_is_asked_for(make_suite):
    suite = make_suite(gateway="  api_keys: [k]\n")
    headers = {"Origin": "https://a.example", "Authorization": "Bearer k"}
    status, _, answer = send(suite, "/v1/models", None, "GET", headers)
    assert status == 200 and "access-control-allow-origin" not in answer


def test_cross_origin_requests_of_named_origins(make_suite):
    suite = make_suite(gateway='  cors_origins: ["https://a.example"]\n  api_keys: [k]\n')
    request = urllib.request.Request(
        suite.url + "/v1/chat/completions", method="OPTIONS",
        headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
    with urllib.request.urlopen(request) as r:
        assert r.status == 204
        assert r.headers["access-control-allow-origin"] == "https://a.example"
        assert "authorization" in r.headers["access-control-allow-headers"]
    status, _, headers = send(suite, "/v1/models", None, "GET", {"Origin": "https://a.example"})
    assert status == 401 and headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in \
        send(suite, "/v1/models", None, "GET", {"Origin": "https://b.example"})[2]


def test_gateway_says_when_no_service_listens(model_dir):
    from conftest import GATEWAY, Suite
    from test_doors import ask
    suite = Suite(model_dir)
    try:
        suite.chat.close()
        status, answer, _ = send(suite, "/v1/models", None, "GET")
        assert status == 502 and answer["error"]["code"] == "service_unreachable"
        status, answer = ask(suite, "unix", path="/health?deep=1")
        assert status == 503 and answer["services"]["chat"]["status"] == "unreachable"
        assert send(suite, "/health", None, "GET")[0] == 200
    finally:
        suite.gateway.close()
    assert GATEWAY.exists()
