# SPDX-License-Identifier: Apache-2.0
"""Tests Anthropic's Messages API with the official client and with raw requests: answers,
streams, counts of tokens, errors, and the prompts of agents."""
import asyncio
import http.client
import json
import shutil
import sys

import pytest

from conftest import Suite, check_log
from gguf_template import set_chat_template

anthropic = pytest.importorskip("anthropic")
# The HTTP library of the client, whose transport connects to the unix socket.
httpx = sys.modules[anthropic.DefaultHttpxClient.__mro__[1].__module__.split(".")[0]]

STORY = [{"role": "user", "content": "Once upon a time"}]
GREEDY = {"temperature": 0}
BLOCK = 64  # tokens of a block of the prefix cache

# These texts make two templates. The first one writes system messages in their places, as Qwen3's
# template does. The second one refuses them after the first message, as Qwen3.5's template does.
# Both templates also write the tools.
HEAD = ("{%- if tools %}{{ '<tools>' }}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}"
        "{{ '</tools>\\n' }}{%- endif %}")
BODY = ("{%- for m in messages %}REFUSE{{ '<' + m.role + '>' + m.content }}"
        "{%- for call in m.tool_calls %}{{ '<tool_call>' + call.function | tojson + '</tool_call>' }}"
        "{%- endfor %}{{ '\\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{ '<assistant>' }}{%- endif %}")
REFUSE = ("{%- if m.role == 'system' and not loop.first %}"
          "{{ raise_exception('System message must be at the beginning.') }}{%- endif %}")


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("agents")
    shutil.copy(model_dir / "tiny.gguf", path / "tiny.gguf")
    for name, refuse in (("inplace", ""), ("strict", REFUSE)):
        set_chat_template(model_dir / "plain.gguf", path / (name + ".gguf"),
                          HEAD + BODY.replace("REFUSE", refuse))
    return path


@pytest.fixture(scope="module")
def suite(models):
    suite = Suite(models, gateway="  max_body: 1M\n", chat="  max_models: 3\n")
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def client(suite):
    return anthropic.Anthropic(base_url=suite.url, api_key="none", max_retries=0, timeout=60)


def post(suite, body, path="/v1/messages", headers=None):
    """Sends bytes, or an object as JSON; returns the status, the headers and the answer as bytes."""
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    c.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers or {})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, r.headers, data


def events_of(data):
    """Returns the events of a stream as pairs of a name and an object."""
    events = []
    for event in data.decode().split("\n\n"):
        if event:
            name, line = event.split("\n")
            assert name.startswith("event: ") and line.startswith("data: ")
            events.append((name[7:], json.loads(line[6:])))
    return events


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


def test_whole_answers_and_streams_are_the_same(suite, client, stories):
    args = dict(model="tiny", max_tokens=24, messages=STORY, extra_body=GREEDY)
    whole = client.messages.create(**args)
    assert whole.type == "message" and whole.role == "assistant" and whole.model == "tiny"
    assert whole.stop_reason == "max_tokens" and whole.stop_sequence is None
    assert whole.usage.output_tokens == 24 and whole.usage.input_tokens > 0
    assert whole._request_id.startswith("req_")
    with client.messages.stream(**args) as stream:
        assert "".join(stream.text_stream) == text_of(whole)
        last = stream.get_final_message()
    assert text_of(last) == text_of(whole) and last.usage.output_tokens == 24
    beta = client.beta.messages.create(betas=["context-management-2025-06-27"], **args)
    assert text_of(beta) == text_of(whole)

    async def ask():
        async with anthropic.AsyncAnthropic(base_url=suite.url, api_key="none") as a:
            message = await a.messages.create(**args)
            async with a.messages.stream(**args) as stream:
                return message, await stream.get_final_message()

    for message in asyncio.run(ask()):
        assert text_of(message) == text_of(whole)
    transport = httpx.HTTPTransport(uds=suite.gateway_sock)
    with anthropic.Anthropic(base_url="http://sconce", api_key="none",
                             http_client=anthropic.DefaultHttpxClient(transport=transport)) as unix:
        assert unix.messages.create(**args).content == whole.content


def test_an_answer_continues_the_last_message_of_the_assistant(suite, client, stories):
    args = dict(model="tiny", max_tokens=40, extra_body=GREEDY)
    whole = client.messages.create(messages=STORY, **args)
    first, rest = text_of(whole)[:text_of(whole).index(" ", 25)], text_of(whole)
    turns = STORY + [{"role": "assistant", "content": [{"type": "text", "text": first}]}]
    more = client.messages.create(messages=turns, **args)
    assert text_of(more).startswith(rest[len(first):]) and len(text_of(more)) > 5
    with client.messages.stream(messages=turns, **args) as stream:
        assert "".join(stream.text_stream) == text_of(more)
    n = client.messages.count_tokens(model="tiny", messages=turns).input_tokens
    assert n == more.usage.input_tokens + more.usage.cache_read_input_tokens
    assert n > whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_a_call_follows_the_beginning_of_an_answer(client):
    tool = {"name": "now", "input_schema": {"type": "object", "additionalProperties": False}}
    more = client.messages.create(
        model="inplace", max_tokens=60, tools=[tool], tool_choice={"type": "tool", "name": "now"},
        messages=STORY + [{"role": "assistant", "content": "I look at the clock."}])
    assert more.stop_reason == "tool_use" and more.content[-1].input == {}


def test_events_come_in_order(suite, stories):
    body = dict(model="tiny", max_tokens=4, messages=STORY, stream=True, temperature=0)
    status, headers, data = post(suite, body, "/v1/messages?beta=true",
                                 {"anthropic-version": "2023-06-01", "anthropic-beta": "x"})
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    assert headers["request-id"] == headers["x-request-id"]
    events = events_of(data)
    names = [name for name, _ in events]
    assert names == (["message_start", "content_block_start"] + ["content_block_delta"] * (len(names) - 5)
                     + ["content_block_stop", "message_delta", "message_stop"])
    assert all(name == event["type"] for name, event in events)
    start, end = events[0][1]["message"], events[-2][1]
    assert start["content"] == [] and start["stop_reason"] is None
    assert end["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert end["usage"]["output_tokens"] == 4
    for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
        assert start["usage"][name] == end["usage"][name]


def test_stop_sequences_end_answers(client, stories):
    args = dict(model="tiny", max_tokens=24, messages=STORY, extra_body=GREEDY)
    text = text_of(client.messages.create(**args))
    words = text.split()
    stop = words[3]
    message = client.messages.create(stop_sequences=["never there", stop], **args)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert text_of(message) == text[:text.index(stop)]


TOOLS = [{"name": "Bash", "description": "Runs a command.", "cache_control": {"type": "ephemeral"},
          "input_schema": {"type": "object", "properties": {"command": {"type": "string"}},
                           "required": ["command"], "additionalProperties": False}},
         {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}]


PICK = [{"name": "pick", "description": "Picks.", "input_schema": {
    "type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"],
    "additionalProperties": False}}]


@pytest.mark.parametrize("model", ["tiny", "inplace"])
def test_calls_fit_the_schema_and_their_results_are_read(client, model):
    """The model is too small to write a call by itself, so the request requires a call."""
    args = dict(model=model, max_tokens=120, tools=PICK, extra_body=GREEDY,
                tool_choice={"type": "tool", "name": "pick", "disable_parallel_tool_use": True})
    whole = client.messages.create(messages=STORY, **args)
    assert whole.stop_reason == "tool_use" and whole.content[-1].type == "tool_use"
    call = whole.content[-1]
    assert call.name == "pick" and set(call.input) == {"color"}
    assert call.input["color"] in ("red", "blue")
    with client.messages.stream(messages=STORY, **args) as stream:
        parts = [e.partial_json for e in stream if e.type == "input_json"]
        last = stream.get_final_message()
    assert last.content[-1].input == call.input == json.loads("".join(parts))
    assert last.stop_reason == "tool_use" and len(parts) > 1
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "picked"}
    turns = STORY + [{"role": "assistant", "content": whole.content},
                     {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]}]
    answer = client.messages.create(messages=turns, **{**args, "tool_choice": {"type": "none"}})
    assert [b.type for b in answer.content] == ["text"]


def test_answers_fit_an_output_format(client):
    schema = PICK[0]["input_schema"]
    message = client.messages.create(
        model="tiny", max_tokens=100, messages=STORY, extra_body=GREEDY,
        output_config={"format": {"type": "json_schema", "schema": schema}})
    assert set(json.loads(text_of(message))) == {"color"} and message.stop_reason == "end_turn"


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_thinking_is_a_block_and_ends_with_its_budget(client, display, stories):
    args = dict(model="tiny", max_tokens=60, messages=STORY, extra_body=GREEDY,
                thinking={"type": "enabled", "budget_tokens": 8, "display": display})
    whole = client.messages.create(**args)
    assert [b.type for b in whole.content] == ["thinking", "text"]
    assert whole.content[0].signature and bool(whole.content[0].thinking) == (display == "summarized")
    assert 8 <= whole.usage.output_tokens_details.thinking_tokens < 30
    with client.messages.stream(**args) as stream:
        last = stream.get_final_message()
    assert [b.type for b in last.content] == ["thinking", "text"]
    assert last.content[0].thinking == whole.content[0].thinking and last.content[0].signature
    assert text_of(last) == text_of(whole)


def system_of(n, left=200000):
    """Returns the system prompt of an agent like Claude Code, for its @n-th request."""
    return [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.ba5; "
                                     "cc_entrypoint=cli; cch=%05x;" % (n * 7919)},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "\nYou help with software.\n\n<total_tokens>%d tokens left"
                                     "</total_tokens>\n\ngitStatus: clean" % left}]


def turns_of(n):
    """Returns the messages that an agent sends after @n answers, each of which calls a tool."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "Once upon a time"}]},
                {"role": "system", "content": "Available agents: claude, a friend of Lily."}]
    for i in range(n):
        messages += [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I look at the files.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_%d" % i, "name": "Bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_%d" % i, "is_error": bool(i % 2),
                 "content": "Lily.c and Tom.c, which %d people wrote" % i}]},
            {"role": "system", "content": "<total_tokens>%d tokens left</total_tokens>" % (199985 - n)}]
    return messages


def agent_request(model, n):
    return dict(model=model, system=system_of(n, 200000 - 1000 * n), messages=turns_of(n), tools=TOOLS,
                thinking={"type": "adaptive"}, max_tokens=64000,
                output_config={"effort": "high"}, metadata={"user_id": "{}"},
                context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})


@pytest.mark.parametrize("model", ["tiny", "inplace", "strict"])
def test_the_next_turn_of_an_agent_computes_only_new_tokens(suite, client, model):
    before = 0
    for n in range(1, 5):
        body = agent_request(model, n)
        count = json.loads(post(suite, body, "/v1/messages/count_tokens?beta=true")[2])
        status, _, data = post(suite, {**body, "max_tokens": 1, "temperature": 0})
        assert status == 200, data
        usage = json.loads(data)["usage"]
        total = usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert count == {"input_tokens": total}
        # The beginning of the answer and one block that is not full may have to be computed.
        assert before - 2 * BLOCK <= usage["cache_read_input_tokens"] <= total - 1
        if n > 1:
            assert usage["cache_read_input_tokens"] > 0
        before = total


def rendered(suite, body):
    return json.loads(post(suite, body, "/v1/messages/count_tokens")[2])["input_tokens"]


def test_the_rule_for_volatile_lines_can_be_switched_off(make_suite):
    cached = {}
    for rule in ("claude-code", "off"):
        suite = make_suite(chat="  canonical_prompts: %s\n" % rule)
        cached[rule] = []
        for n in (1, 2):
            body = dict(model="tiny", system=system_of(n), messages=STORY * 30, max_tokens=1)
            usage = json.loads(post(suite, body)[2])["usage"]
            cached[rule].append(usage["cache_read_input_tokens"])
    assert cached["claude-code"][0] == cached["off"][0] == 0
    assert cached["claude-code"][1] >= 2 * BLOCK and cached["off"][1] <= BLOCK


def test_quoted_lines_are_tokens_of_the_prompt(suite):
    line = "<total_tokens>5 tokens left</total_tokens>"
    long = rendered(suite, dict(model="tiny", messages=[{"role": "user", "content": line}]))
    short = rendered(suite, dict(model="tiny", messages=[{"role": "user", "content": ""}]))
    assert long > short + 10


def test_models_have_the_fields_of_anthropic(client):
    names = {m.id for m in client.models.list()}
    assert names == {"tiny", "inplace", "strict"}
    model = client.models.retrieve("tiny")
    assert model.type == "model" and model.display_name == "tiny" and model.created_at.year > 2000


def test_clients_can_probe_the_server(suite):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    c.request("HEAD", "/")
    r = c.getresponse()
    assert r.status == 200 and not r.read()


ERRORS = [
    ({}, "invalid_request_error", "max_tokens"),
    ({"max_tokens": 0}, "invalid_request_error", "max_tokens"),
    ({"max_tokens": 1, "seed": 1}, "invalid_request_error", "seed"),
    ({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
     "invalid_request_error", "messages[0].content[0]"),
    ({"max_tokens": 1, "messages": STORY + [{"role": "assistant", "content": "T "}]},
     "invalid_request_error", "messages[1]"),
    ({"max_tokens": 1, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
     "invalid_request_error", "tools[0]"),
    ({"max_tokens": 1, "messages": [{"role": "user", "content": "a " * 9000}]},
     "invalid_request_error", "messages"),
]


@pytest.mark.parametrize("fields,kind,param", ERRORS)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_name_the_field(suite, fields, kind, param, stream):
    status, headers, data = post(suite, {"model": "tiny", "messages": STORY, "stream": stream, **fields})
    answer = json.loads(data)
    assert status == 400 and answer["type"] == "error" and headers["request-id"]
    assert (answer["error"]["type"], answer["error"]["param"]) == (kind, param), answer
    assert answer["error"]["message"]


def test_clients_learn_that_conversations_are_not_kept(suite):
    """Tests the error code that makes Anthropic's clients send the whole conversation."""
    body = {"model": "tiny", "messages": STORY, "max_tokens": 1, "thread": {"type": "create"}}
    status, _, data = post(suite, body)
    error = json.loads(data)["error"]
    assert status == 400 and error["param"] == "thread"
    assert error["details"]["error_code"] == "thread_unsupported_request"


def test_a_prompt_can_be_counted_that_does_not_fit(suite):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a " * 9000}]}
    message = json.loads(post(suite, {**body, "max_tokens": 1})[2])["error"]["message"]
    assert message == "prompt is too long: at least 2048 tokens > 2047 maximum"
    status, _, data = post(suite, body, "/v1/messages/count_tokens")
    assert status == 200 and json.loads(data)["input_tokens"] > 2048


def test_statuses_become_exceptions(suite, client):
    args = dict(model="tiny", max_tokens=1, messages=STORY)
    with pytest.raises(anthropic.NotFoundError) as e:
        client.messages.create(**{**args, "model": "claude-9"})
    assert e.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**{**args, "max_tokens": -1})
    status, headers, data = post(suite, b" " * (2 << 20))
    assert status == 413 and json.loads(data)["error"]["type"] == "request_too_large"
    assert headers["request-id"]
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    c.request("GET", "/v1/messages")
    r = c.getresponse()
    assert r.status == 405 and json.loads(r.read())["type"] == "error"


def test_both_headers_for_keys_are_accepted(make_suite):
    suite = make_suite(gateway="  api_keys: [right-key-of-16-chars]\n")
    args = dict(model="tiny", max_tokens=1, messages=STORY)
    for good in (dict(api_key="right-key-of-16-chars"), dict(auth_token="right-key-of-16-chars")):
        anthropic.Anthropic(base_url=suite.url, max_retries=0, **good).messages.create(**args)
    with pytest.raises(anthropic.AuthenticationError) as e:
        anthropic.Anthropic(base_url=suite.url, max_retries=0, api_key="wrong").messages.create(**args)
    assert e.value.body["error"]["type"] == "authentication_error"
