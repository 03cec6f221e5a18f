# SPDX-License-Identifier: Apache-2.0
"""Tests /v1/responses with the official openai client, without and with the keep service."""
import asyncio
import json
import pathlib
import urllib.error
import urllib.request

import pytest

from conftest import Suite, check_log, parse_metrics, read_all

openai = pytest.importorskip("openai")

STORY = "Once upon a time there was a little girl who lived in a small house near the big forest."
KEYS = "  api_keys: [alice-key, bob-key]\n"


@pytest.fixture(scope="module")
def kept(model_dir):
    """Provides a suite with the keep service and with API keys for two clients."""
    suite = Suite(model_dir, gateway=KEYS, keep="  max_bytes: 64KiB\n")
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def alice(kept):
    return client_of(kept, "alice-key")


@pytest.fixture(scope="module")
def bob(kept):
    return client_of(kept, "bob-key")


def client_of(suite, key, kind=openai.OpenAI):
    return kind(base_url=suite.url + "/v1", api_key=key, max_retries=0, timeout=60)


def create(client, text=STORY, **kw):
    args = dict(model="tiny", input=text, max_output_tokens=8, temperature=0)
    return client.responses.create(**{**args, **kw})


def refused(client, **kw):
    with pytest.raises(openai.APIStatusError) as e:
        create(client, **kw)
    return e.value


def post(suite, path, body, key="alice-key"):
    request = urllib.request.Request(
        suite.url + path, json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + key})
    return urllib.request.urlopen(request, timeout=30)


def events(suite, body, key="alice-key"):
    """Returns the events of a stream as the server sends them."""
    text = post(suite, "/v1/responses", dict(body, stream=True), key).read().decode()
    assert text.endswith("\n\n") and "[DONE]" not in text
    found = []
    for block in text[:-2].split("\n\n"):
        name, data = block.split("\n")
        data = json.loads(data.removeprefix("data: "))
        assert name == "event: " + data["type"]
        found.append(data)
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    return found


# --- the answer ---

def test_a_response_is_complete(alice):
    r = create(alice, instructions="Tell a story.", metadata={"a": "b"}, user="me")
    assert r.id.startswith("resp_") and r.object == "response" and r.model == "tiny"
    assert r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens"
    assert r.output[0].type == "message" and r.output_text and r.output[0].id.startswith("msg_")
    assert r.usage.output_tokens == 8 and r.usage.output_tokens_details.reasoning_tokens == 0
    assert r.usage.total_tokens == r.usage.input_tokens + 8
    assert r.instructions == "Tell a story." and r.metadata == {"a": "b"} and r.user == "me"
    assert r.temperature == 0 and r.max_output_tokens == 8 and r.store is True
    assert r.error is None and r.tools == [] and r.tool_choice == "auto" and r.parallel_tool_calls


def test_a_string_and_items_are_the_same_prompt(alice):
    items = [{"role": "user", "content": [{"type": "input_text", "text": STORY}]}]
    assert create(alice).output_text == create(alice, items).output_text
    assert create(alice).usage.input_tokens == create(alice, items).usage.input_tokens


def test_a_stream_has_the_events_in_order(kept, alice):
    found = events(kept, {"model": "tiny", "input": STORY, "max_output_tokens": 5,
                          "temperature": 0})
    kinds = [e["type"].removeprefix("response.") for e in found]
    deltas = [e["delta"] for e in found if e["type"] == "response.output_text.delta"]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[4:-4] == ["output_text.delta"] * len(deltas) and deltas
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
    last = found[-1]["response"]
    assert "".join(deltas) == last["output"][0]["content"][0]["text"] == found[-4]["text"]
    assert found[0]["response"]["id"] == last["id"] and found[0]["response"]["usage"] is None
    assert last["usage"]["output_tokens"] == 5
    assert alice.responses.retrieve(last["id"]).output_text == "".join(deltas)


def test_the_client_accumulates_a_stream(alice):
    with alice.responses.stream(model="tiny", input=STORY, max_output_tokens=5) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text
    whole = alice.responses.create(model="tiny", input=STORY, max_output_tokens=5, stream=True)
    assert [e.type for e in whole][-1] == "response.incomplete"


def test_the_async_client(kept):
    async def run():
        async with client_of(kept, "alice-key", openai.AsyncOpenAI) as client:
            one = create(client)
            async with client.responses.stream(model="tiny", input=STORY, max_output_tokens=4,
                                               temperature=0) as stream:
                types = [e.type async for e in stream]
            return (await one).output_text, types
    text, types = asyncio.run(run())
    assert text and types[0] == "response.created" and types[-1] == "response.incomplete"


def test_probabilities_of_tokens(alice):
    r = create(alice, top_logprobs=2, include=["message.output_text.logprobs"])
    logprobs = r.output[0].content[0].logprobs
    assert len(logprobs) == 8 and all(len(p.top_logprobs) == 2 for p in logprobs)
    assert "".join(p.token for p in logprobs) == r.output_text


def test_tokens_are_counted(kept, alice):
    r = create(alice, instructions="Tell.")
    n = alice.responses.input_tokens.count(model="tiny", input=STORY, instructions="Tell.")
    assert n.object == "response.input_tokens" and n.input_tokens == r.usage.input_tokens


def test_an_empty_input_is_answered_by_an_empty_response(kept):
    body = {"model": "tiny", "input": []}
    r = json.load(post(kept, "/v1/responses", body))
    assert r["status"] == "completed" and r["output"] == [] and r["usage"]["total_tokens"] == 0
    assert [e["type"] for e in events(kept, body)] == [
        "response.created", "response.in_progress", "response.completed"]


def test_llama_servers_timings_and_progress(kept):
    body = {"model": "tiny", "input": STORY, "max_output_tokens": 4, "timings_per_token": True}
    r = json.load(post(kept, "/v1/responses", body))
    assert r["timings"]["predicted_n"] == 4 and r["status"] == "incomplete"
    found = events(kept, dict(body, return_progress=True))
    told = [e for e in found if "prompt_progress" in e]
    assert told and all(e["type"] == "response.in_progress" for e in told)
    assert all(e["prompt_progress"]["total"] for e in told)
    assert found[-1]["timings"]["predicted_n"] == 4
    assert any("timings" in e for e in found if e["type"] == "response.output_text.delta")


def test_the_list_of_models_is_also_for_codex(kept):
    create(client_of(kept, "alice-key"))
    request = urllib.request.Request(kept.url + "/v1/models?client_version=0.169.0",
                                     headers={"Authorization": "Bearer alice-key"})
    listed = json.load(urllib.request.urlopen(request, timeout=10))
    models = {m["slug"]: m for m in listed["models"]}
    assert set(models) == {m["id"] for m in listed["data"]} == {"tiny", "plain"}
    assert models["tiny"]["context_window"] == 2048
    assert models["plain"]["context_window"] is None
    assert len(models["tiny"]["base_instructions"]) < 500


# --- refusals ---

@pytest.mark.parametrize("field, body", [
    ("background", {"background": True}),
    ("truncation", {"truncation": "auto"}),
    ("nonsense", {"extra_body": {"nonsense": 1}}),
    ("input[0].type", {"text": [{"type": "image_generation_call", "id": "x"}]}),
    ("input[0].content[0]", {"text": [{"role": "user", "content": [
        {"type": "input_image", "image_url": "data:,"}]}]}),
    ("input[1].call_id", {"text": [{"role": "user", "content": "x"},
                                   {"type": "function_call_output", "output": "x"}]}),
    ("input[0].role", {"text": [{"role": "tool", "content": "x"}]}),
    ("tools[0].type", {"tools": [{"type": "teleport"}]}),
    ("tools[0].name", {"tools": [{"type": "function"}]}),
    ("tool_choice", {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
    ("tool_choice", {"tools": [{"type": "web_search"}], "tool_choice": "required"}),
    ("tool_choice", {"tool_choice": {"type": "function", "name": "absent"}}),
    ("text.format.schema", {"extra_body": {"text": {"format": {"type": "json_schema",
                                                               "name": "x"}}}}),
    ("text.verbosity", {"extra_body": {"text": {"verbosity": "loud"}}}),
    ("reasoning.effort", {"extra_body": {"reasoning": {"effort": "endless"}}}),
    ("include[0]", {"include": ["everything"]}),
    ("max_output_tokens", {"max_output_tokens": 0}),
    ("conversation", {"conversation": "conv_x", "previous_response_id": "resp_x"}),
])
def test_errors_name_the_field(alice, field, body):
    e = refused(alice, **body)
    assert e.status_code == 400 and e.body["param"] == field, e.body


def test_tools_that_only_openai_has_are_skipped(alice):
    r = create(alice, tools=[{"type": "web_search"}, {"type": "mcp", "server_label": "x"},
                             {"type": "image_generation"}])
    assert r.output_text and len(r.tools) == 3


def test_methods_of_a_path(kept):
    with pytest.raises(urllib.error.HTTPError) as e:
        request = urllib.request.Request(kept.url + "/v1/conversations", method="DELETE",
                                         headers={"Authorization": "Bearer alice-key"})
        urllib.request.urlopen(request, timeout=10)
    assert e.value.code == 405 and e.value.headers["allow"] == "POST"


# --- what is kept ---

def test_a_chain_continues_with_its_cached_prefix(alice):
    first = create(alice, STORY * 8)
    second = create(alice, "And then?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.total_tokens
    # Whole blocks are cached.
    assert second.usage.input_tokens_details.cached_tokens > first.usage.input_tokens - 256
    whole = [{"role": "user", "content": STORY * 8},
             {"role": "assistant", "content": first.output_text},
             {"role": "user", "content": "And then?"}]
    assert create(alice, whole).usage.input_tokens == second.usage.input_tokens
    assert create(alice, whole).output_text == second.output_text


def test_instructions_are_not_inherited(alice):
    first = create(alice, instructions="Be brief. " * 10)
    second = create(alice, "And?", previous_response_id=first.id)
    assert second.instructions is None
    assert second.usage.input_tokens < first.usage.input_tokens + 40


def test_a_kept_response_is_read_and_deleted(alice):
    r = create(alice)
    again = alice.responses.retrieve(r.id)
    assert again.output == r.output and again.usage == r.usage
    items = alice.responses.input_items.list(r.id)
    assert [i.content[0].text for i in items] == [STORY]
    with pytest.raises(openai.BadRequestError) as e:
        alice.responses.cancel(r.id)
    assert e.value.code == "not_in_background"
    alice.responses.delete(r.id)
    for call in (alice.responses.retrieve, alice.responses.delete, alice.responses.cancel,
                 alice.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(r.id)
    assert refused(alice, previous_response_id=r.id).code == "previous_response_not_found"


def test_the_ids_of_another_tenant_do_not_exist(alice, bob):
    r = create(alice)
    talk = alice.conversations.create(items=[{"role": "user", "content": "secret"}])
    item = alice.conversations.items.list(talk.id).data[0]
    for call in (bob.responses.retrieve, bob.responses.delete):
        with pytest.raises(openai.NotFoundError):
            call(r.id)
    with pytest.raises(openai.NotFoundError):
        bob.conversations.items.list(talk.id)
    assert refused(bob, previous_response_id=r.id).status_code == 404
    assert refused(bob, conversation=talk.id).status_code == 404
    assert refused(bob, text=[{"type": "item_reference", "id": item.id}]).status_code == 404
    assert alice.responses.retrieve(r.id).id == r.id


def test_store_false_leaves_nothing(alice):
    r = create(alice, store=False)
    assert r.store is False
    with pytest.raises(openai.NotFoundError):
        alice.responses.retrieve(r.id)


def test_an_item_is_referred_to_by_its_id(alice):
    first = create(alice)
    message = first.output[0]
    r = create(alice, [{"role": "user", "content": STORY},
                       {"type": "item_reference", "id": message.id},
                       {"role": "user", "content": "And then?"}])
    whole = create(alice, "And then?", previous_response_id=first.id)
    assert r.usage.input_tokens == whole.usage.input_tokens
    kept = alice.responses.input_items.list(r.id, order="asc").data
    assert kept[1].content[0].text == first.output_text


def test_a_conversation_collects_items(alice):
    talk = alice.conversations.create(metadata={"topic": "girls"},
                                      items=[{"role": "user", "content": STORY}])
    assert talk.id.startswith("conv_") and talk.metadata == {"topic": "girls"}
    r = create(alice, "Go on.", conversation=talk.id)
    assert r.conversation.id == talk.id
    items = list(alice.conversations.items.list(talk.id, order="asc"))
    assert [i.role for i in items] == ["user", "user", "assistant"]
    assert items[2].id == r.output[0].id
    pages = alice.conversations.items.list(talk.id, limit=2)
    assert pages.has_more and pages.first_id == items[2].id and pages.last_id == items[1].id
    rest = alice.conversations.items.list(talk.id, limit=2, after=pages.last_id)
    assert [i.id for i in rest.data] == [items[0].id] and not rest.has_more
    added = alice.conversations.items.create(talk.id, items=[
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}])
    one = alice.conversations.items.retrieve(added.data[0].id, conversation_id=talk.id)
    assert one.content[0].text == "x"
    alice.conversations.items.delete(one.id, conversation_id=talk.id)
    with pytest.raises(openai.NotFoundError):
        alice.conversations.items.retrieve(one.id, conversation_id=talk.id)
    assert alice.conversations.update(talk.id, metadata={"n": "1"}).metadata == {"n": "1"}
    assert alice.conversations.retrieve(talk.id).metadata == {"n": "1"}
    assert alice.conversations.delete(talk.id).deleted
    with pytest.raises(openai.NotFoundError):
        alice.conversations.retrieve(talk.id)


@pytest.mark.parametrize("query, param", [
    ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"),
    ("after=%2e", "after"), ("before=a", "before")])
def test_queries_of_lists_are_checked(kept, alice, query, param):
    talk = alice.conversations.create()
    with pytest.raises(openai.BadRequestError) as e:
        alice.get("/conversations/%s/items?%s" % (talk.id, query), cast_to=object)
    assert e.value.body["param"] == param


def test_items_of_a_conversation_are_checked(alice):
    for item, param in (({"type": "teleport"}, "items[0].type"),
                        ({"role": "tool", "content": "x"}, "items[0].role"),
                        ({"role": "user"}, "items[0].content")):
        with pytest.raises(openai.BadRequestError) as e:
            alice.conversations.create(items=[item])
        assert e.value.body["param"] == param


def test_the_oldest_entries_of_a_tenant_give_way(kept, alice, bob):
    bobs = create(bob)
    first = create(alice)
    for _ in range(5):
        create(alice, user="u" * 20000)
    with pytest.raises(openai.NotFoundError):
        alice.responses.retrieve(first.id)
    assert bob.responses.retrieve(bobs.id).id == bobs.id
    # A response that is larger than the space for all responses is not kept, and its field `store`
    # says so.
    assert create(alice, user="u" * 70000).store is False
    assert refused(alice, extra_body={"metadata": {"a": 1}}).body["param"] == "metadata"


def test_the_metrics_count_entries(kept, alice):
    before = kept.metrics()
    create(alice)
    with pytest.raises(openai.NotFoundError):
        alice.responses.retrieve("resp_absent")
    values = parse_metrics(kept.observe("/metrics"))
    assert values["sconce_keep_tenants"] in (1, 2) and values["sconce_keep_expired_total"] == 0
    assert 0 < values["sconce_keep_entries"] and 0 < values["sconce_keep_bytes"] <= 2 * 65536
    for name in ("keep_added", "keep_missed", "chat_keep_calls"):
        assert values[f"sconce_{name}_total"] > before.get(f"sconce_{name}_total", 0)
    assert values["sconce_chat_keep_failures_total"] == 0
    create(alice, user="u" * 70000)
    refused = "sconce_keep_refused_total"
    assert kept.metrics()[refused] == values[refused] + 1


# --- without the keep service, and after its process has ended ---

def test_without_the_keep_service_nothing_is_kept(suite, client):
    assert create(client).store is False
    for body, param in (({"store": True}, "store"), ({"conversation": "conv_x"}, "conversation"),
                        ({"previous_response_id": "resp_x"}, "previous_response_id")):
        e = refused(client, **body)
        assert (e.status_code, e.code, e.body["param"]) == (503, "keep_unavailable", param)
    with pytest.raises(openai.InternalServerError) as e:
        client.responses.retrieve("resp_x")
    assert e.value.code == "keep_unavailable"
    assert [e.type for e in create(client, stream=True)][-1] == "response.incomplete"


def test_entries_in_memory_expire_and_let_the_process_exit(make_suite):
    suite = make_suite(gateway=KEYS, keep="  expiry: 2s\n  idle_timeout: 1s\n")
    client = client_of(suite, "alice-key")
    r = create(client)
    pid = suite.keep.wait_pid()
    assert client.responses.retrieve(r.id).id == r.id
    suite.keep.wait_gone(10)
    assert pid and suite.keep.status == 0
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(r.id)


def test_entries_on_disk_outlive_the_process(make_suite):
    suite = make_suite(gateway=KEYS, keep="  storage: disk\n  idle_timeout: 1s\n")
    client = client_of(suite, "alice-key")
    r, gone = create(client), create(client, "A text that is deleted.")
    client.responses.delete(gone.id)
    suite.keep.wait_pid()
    suite.keep.wait_gone(10)
    assert suite.keep.status == 0
    files = list((pathlib.Path(suite.dir) / ".local/state/sconce-keep").iterdir())
    assert any(STORY.encode() in f.read_bytes() for f in files)
    assert not any(b"that is deleted" in f.read_bytes() for f in files)
    assert all(f.stat().st_mode & 0o077 == 0 for f in files)
    assert client.responses.retrieve(r.id).id == r.id
    assert create(client, "And?", previous_response_id=r.id).usage.input_tokens > 30


def test_a_request_goes_on_when_the_keep_service_fails(make_suite):
    suite = make_suite(gateway=KEYS, keep="  storage: disk\n")
    client = client_of(suite, "alice-key")
    create(client)
    suite.keep.kill(9)
    suite.keep.wait_gone()
    path = pathlib.Path(suite.dir) / ".local/state/sconce-keep/kept.db"
    path.write_bytes(b"no database" * 1000)
    assert create(client).store is False
    e = refused(client, store=True)
    assert (e.status_code, e.body["param"]) == (503, "store")


def test_a_stream_that_fails_says_so_and_is_broken_off(make_suite):
    suite = make_suite(gateway=KEYS, keep="", chat="  context: 65536\n",
                       args=("--drain-timeout", "0"))
    data = json.dumps({"model": "tiny", "input": STORY, "ignore_eos": True,
                       "stream": True}).encode()
    with suite.connect(30) as s:
        s.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice-key\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(data) + data)
        text = b""
        while b"output_text.delta" not in text:
            text += s.recv(65536)
        suite.chat.kill()
        text += read_all(s)
    names = [line[7:] for line in text.decode().split("\n") if line.startswith("event: ")]
    assert names[0] == "response.created" and names[-2:] == ["response.failed", "error"], names[-3:]
    last = json.loads(text.decode().rsplit("data: ", 1)[1].split("\n")[0])
    assert last["type"] == "error" and last["code"] == "shutting_down" and last["error"]["message"]
    assert not text.endswith(b"0\r\n\r\n")
