# SPDX-License-Identifier: Apache-2.0
"""Tests Ollama's API with the official client, and field by field with httpx."""
import asyncio
import datetime
import json
import re
import shutil
import signal
import time

import pytest

from activator import Service, listen_tcp, listen_unix
from conftest import ROOT, SLOW, Suite, check_log
from gguf_template import set_chat_template

httpx = pytest.importorskip("httpx")

STORY = [{"role": "user", "content": "Once upon a time"}]
GREEDY = {"temperature": 0, "num_predict": 8, "repeat_penalty": 1}
TOOLS = "{%- if tools %}{%- for t in tools %}{{ t.function.name }}{%- endfor %}{%- endif %}"

pytestmark = pytest.mark.sanitize


@pytest.fixture(scope="module")
def suite(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("ollama-models")
    for name in ("tiny.gguf", "plain.gguf"):
        shutil.copy(model_dir / name, path / name)
    set_chat_template(path / "plain.gguf", path / "tooled.gguf",
                      TOOLS + "{%- for m in messages %}{{ m.role + m.content }}{%- endfor %}")
    shutil.copytree(ROOT / "tests/golden/embed/bert-mean", path / "bert")
    shutil.copytree(ROOT / "tests/golden/embed/bert-rank", path / "bert-rank")
    suite = Suite(path)
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def http(suite):
    with httpx.Client(base_url=suite.url, timeout=60 * SLOW) as client:
        yield client


@pytest.fixture(scope="module")
def client(suite):
    ollama = pytest.importorskip("ollama")
    return ollama.Client(host=suite.url, timeout=60 * SLOW)


def post(http, path, **body):
    return http.post("/api/" + path, json=body)


def chat(http, **body):
    r = post(http, "chat", **{"model": "tiny", "messages": STORY, "options": GREEDY,
                              "stream": False, **body})
    assert r.status_code == 200, r.text
    return r.json()


def generate(http, **body):
    r = post(http, "generate", **{"model": "tiny", "prompt": "Once upon a time",
                                  "options": GREEDY, "stream": False, **body})
    assert r.status_code == 200, r.text
    return r.json()


def refused(r, status, *words):
    """Checks an error, which is {"error": "…"} in Ollama's API."""
    assert r.status_code == status, r.text
    assert list(r.json()) == ["error"]
    for word in words:
        assert word in r.json()["error"], r.text


def check_end(end, reason="length"):
    assert end["done"] is True and end["done_reason"] == reason
    assert end["total_duration"] >= end["load_duration"] >= 0
    assert end["prompt_eval_count"] > 0 and end["eval_count"] > 0
    assert end["prompt_eval_duration"] > 0 and end["eval_duration"] > 0
    parts = end["load_duration"] + end["prompt_eval_duration"] + end["eval_duration"]
    assert parts <= end["total_duration"]
    when = datetime.datetime.fromisoformat(end["created_at"].replace("Z", "+00:00"))
    assert abs(when.timestamp() - time.time()) < 120


# --- the official client ---

def test_client_chats(client, stories):
    r = client.chat("tiny", STORY, options=GREEDY)
    assert r.message.role == "assistant" and r.message.content
    assert r.model == "tiny" and r.done and r.done_reason == "length" and r.eval_count == 8
    parts = list(client.chat("tiny", STORY, options=GREEDY, stream=True))
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
    assert "".join(p.message.content for p in parts) == r.message.content


def test_client_generates(client):
    r = client.generate("tiny", "Once upon a time", options=GREEDY)
    assert r.response and r.context
    parts = list(client.generate("tiny", "Once upon a time", options=GREEDY, stream=True))
    assert "".join(p.response for p in parts) == r.response
    assert parts[-1].context == r.context


def test_client_of_coroutines(suite):
    ollama = pytest.importorskip("ollama")

    async def run():
        client = ollama.AsyncClient(host=suite.url, timeout=60 * SLOW)
        stream = await client.chat("tiny", STORY, options=GREEDY, stream=True)
        texts = [p.message.content async for p in stream]
        whole, listed = await asyncio.gather(client.chat("tiny", STORY, options=GREEDY),
                                             client.list())
        return "".join(texts), whole.message.content, listed

    streamed, whole, listed = asyncio.run(run())
    assert streamed == whole
    assert {m.model for m in listed.models} == {"tiny:latest", "plain:latest", "tooled:latest",
                                                "bert:latest"}


def test_client_lists_shows_and_embeds(client, stories):
    client.chat("tiny", STORY, options=GREEDY)
    listed = {m.model: m for m in client.list().models}
    assert listed["tiny:latest"].size > 0 and listed["tiny:latest"].digest
    running = {m.model: m for m in client.ps().models}
    assert running["tiny:latest"].details.family == "llama"
    shown = client.show("tiny:latest")
    assert "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == "llama"
    vectors = client.embed("bert", ["a text", "another"]).embeddings
    assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-3
    assert len(client.embeddings("bert", "a text").embedding) == len(vectors[0])


def test_client_gets_errors(client, http):
    ollama = pytest.importorskip("ollama")
    with pytest.raises(ollama.ResponseError) as e:
        client.chat("none", STORY)
    assert e.value.status_code == 404 and "none" in e.value.error
    with pytest.raises(ollama.ResponseError) as e:
        client.pull("llama3.2")
    assert e.value.status_code == 403
    with pytest.raises(ollama.ResponseError):
        list(client.generate("none", "x", stream=True))


# --- chat ---

def test_chat_whole_and_streamed(http, stories):
    whole = chat(http)
    check_end(whole)
    assert set(whole) == {"model", "created_at", "message", "done", "done_reason",
                          "total_duration", "load_duration", "prompt_eval_count",
                          "prompt_eval_duration", "eval_count", "eval_duration"}
    assert whole["message"]["role"] == "assistant" and whole["eval_count"] == 8
    body = {"model": "tiny:latest", "messages": STORY, "options": GREEDY}
    with http.stream("POST", "/api/chat", json=body) as r:
        assert r.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in r.iter_lines()]
    check_end(lines[-1])
    assert all(line["model"] == "tiny:latest" for line in lines)
    assert all(set(line) == {"model", "created_at", "message", "done"} for line in lines[:-1])
    text = "".join(line["message"]["content"] for line in lines)
    assert text == whole["message"]["content"]


def test_options_decide(http):
    one = chat(http, options={"num_predict": 3, "temperature": 5, "seed": 7})
    two = chat(http, options={"num_predict": 3, "temperature": 5, "seed": 7})
    assert one["eval_count"] == 3 and one["message"] == two["message"]
    text = chat(http)["message"]["content"]
    stopped = chat(http, options={**GREEDY, "stop": [text[4:6]]})
    assert stopped["done_reason"] == "stop"
    assert stopped["message"]["content"] == text[:text.index(text[4:6])]
    chat(http, options={**GREEDY, "num_ctx": 4096, "num_gpu": 99, "num_keep": 5, "use_mmap": True,
                        "repeat_last_n": 0, "top_k": 0, "mirostat": 0, "min_p": 0.1},
         keep_alive="5m", truncate=True, shift=False)


def test_logprobs(http, stories):
    r = chat(http, logprobs=True, top_logprobs=2)
    assert len(r["logprobs"]) == 8
    first = r["logprobs"][0]
    assert first["logprob"] <= 0 and len(first["top_logprobs"]) == 2
    assert first["token"] == first["top_logprobs"][0]["token"]


@pytest.mark.parametrize("body, word", [
    ({"options": {"temprature": 1}}, "options.temprature"),
    ({"options": {"temperature": "hot"}}, "options.temperature"),
    ({"options": {"top_p": 2}}, "options.top_p"),
    ({"options": {"mirostat": 3}}, "options.mirostat"),
    ({"options": []}, "options"),
    ({"format": "xml"}, "format"),
    ({"think": "hard"}, "think"),
    ({"keep_alive": "soon"}, "keep_alive"),
    ({"keep_alive": []}, "keep_alive"),
    ({"colour": "red"}, "colour"),
    ({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": ["x"]}, "messages[0]"),
    ({"messages": "x"}, "messages"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0]"),
    ({"messages": [{"role": "assistant", "tool_calls": [
        {"function": {"name": "f", "arguments": "{}"}}]}]}, "arguments"),
    ({"tools": [{"type": "web"}]}, "tools[0]"),
    ({"tools": [{"type": "function"}]}, "tools[0]"),
    ({"tools": {}}, "tools"),
    ({"logprobs": False, "top_logprobs": 3}, "top_logprobs"),
    ({"model": "tooled", "think": True}, "think"),
])
def test_bad_fields_are_named(http, body, word):
    refused(post(http, "chat", **{"model": "tiny", "messages": STORY, **body}), 400, word)


def test_other_errors(http):
    refused(post(http, "chat", model="none", messages=STORY), 404, "none")
    refused(http.post("/api/chat", content=b"{"), 400, "JSON")
    refused(http.get("/api/chat"), 405, "POST")
    refused(http.post("/api/tags"), 405, "GET")
    long = [{"role": "user", "content": "word " * 20000}]
    refused(post(http, "chat", model="tiny", messages=long), 400, "context length")


def test_messages_of_tools_are_read(http):
    chat(http, messages=STORY + [
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
            {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "tool_call_id": "c1", "content": "2"}])


def test_chat_continues_the_assistant(http):
    """Tests that the answer continues the last message as on llama-server's route."""
    story = STORY + [{"role": "assistant", "content": "there was a"}]
    a = chat(http, messages=story)
    b = http.post("/chat/completions", json={"messages": story, "temperature": 0, "max_tokens": 8})
    assert a["message"]["content"] == b.json()["choices"][0]["message"]["content"]
    assert a["prompt_eval_count"] == b.json()["usage"]["prompt_tokens"]
    assert a["message"]["content"] != chat(http)["message"]["content"]
    # An empty message adds nothing to the prompt.
    empty = STORY + [{"role": "assistant"}]
    assert chat(http, messages=empty)["prompt_eval_count"] == chat(http)["prompt_eval_count"]
    # The last message has a call without a result, so the answer does not continue this message.
    call = {"role": "assistant", "content": "x", "tool_calls": [
        {"function": {"name": "f", "arguments": {}}}]}
    assert chat(http, messages=STORY + [call])["prompt_eval_count"] > a["prompt_eval_count"]


def test_thoughts_are_apart(http):
    assert chat(http, think=False)["message"].keys() == {"role", "content"}
    message = chat(http, think=True)["message"]
    assert message["thinking"] and not message["content"]
    assert generate(http, think="high")["thinking"]
    body = {"model": "tiny", "messages": STORY, "options": GREEDY, "think": True}
    with http.stream("POST", "/api/chat", json=body) as r:
        lines = [json.loads(line) for line in r.iter_lines()]
    assert "".join(m["message"].get("thinking", "") for m in lines) == message["thinking"]


def test_tools_reach_the_prompt(http):
    tools = [{"function": {"name": "f", "parameters": {"type": "object"}}},
             {"type": "function", "function": {"name": "a_long_name_for_a_function"}}]
    without = chat(http, model="tooled")["prompt_eval_count"]
    assert chat(http, model="tooled", tools=tools)["prompt_eval_count"] > without + 5
    assert chat(http, model="tooled", tools=[])["prompt_eval_count"] == without


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["n"], "additionalProperties": False}


def test_formats(http):
    options = {"temperature": 0, "num_predict": 100}
    text = chat(http, format=SCHEMA, options=options)["message"]["content"]
    assert isinstance(json.loads(text)["n"], int)
    text = generate(http, format=SCHEMA, options=options)["response"]
    assert isinstance(json.loads(text)["n"], int)
    text = generate(http, format=SCHEMA, options=options, raw=True)["response"]
    assert isinstance(json.loads(text)["n"], int)
    assert chat(http, format="json", options=options)["message"]["content"].lstrip()[0] == "{"
    bad = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
    refused(post(http, "chat", model="tiny", messages=STORY, format=bad), 400, "format")


# --- generate ---

def test_generate_forms(http, stories):
    whole = generate(http)
    check_end(whole)
    assert whole["response"] and "message" not in whole
    raw = generate(http, raw=True)
    assert "context" not in raw and raw["prompt_eval_count"] < whole["prompt_eval_count"]
    # A model without a template continues the prompt.
    assert generate(http, model="plain")["response"] == raw["response"]
    more = generate(http, prompt="And then", context=whole["context"])
    assert more["prompt_eval_count"] > len(whole["context"])
    assert more["context"][:len(whole["context"])] == whole["context"]
    system = generate(http, system="Be brief.")
    assert system["prompt_eval_count"] > whole["prompt_eval_count"]
    body = {"model": "tiny", "prompt": "Once upon a time", "options": GREEDY}
    with http.stream("POST", "/api/generate", json=body) as r:
        lines = [json.loads(line) for line in r.iter_lines()]
    assert "".join(line["response"] for line in lines) == whole["response"]
    assert lines[-1]["context"] == whole["context"]
    assert all("context" not in line for line in lines[:-1])


@pytest.mark.parametrize("body, word", [
    ({"images": ["aGk="]}, "images"),
    ({"template": "{{ .Prompt }}"}, "template"),
    ({"suffix": "the end"}, "fill in"),
    ({"raw": True, "context": [1, 2]}, "context"),
    ({"raw": True, "system": "x"}, "system"),
    ({"raw": True, "think": True}, "think"),
    ({"suffix": "x", "context": [1]}, "context"),
    ({"raw": True, "suffix": "x"}, "suffix"),
    ({"context": [10 ** 9]}, "context"),
    ({"context": "x"}, "context"),
    ({"prompt": 5}, "prompt"),
    ({"messages": STORY}, "messages"),
    ({"model": "plain", "system": "x"}, "system"),
])
def test_bad_fields_of_generate_are_named(http, body, word):
    refused(post(http, "generate", **{"model": "tiny", "prompt": "x", **body}), 400, word)


# --- models in memory ---

def names(http, route):
    return {m["model"]: m for m in http.get("/api/" + route).json()["models"]}


def running(http):
    """Returns the loaded models for chats; other tests load models for vectors."""
    return {name: m for name, m in names(http, "ps").items() if not name.startswith("bert")}


@pytest.mark.parametrize("path, empty", [("chat", {"messages": []}), ("generate", {})])
def test_empty_requests_load_and_unload(http, path, empty):
    r = post(http, path, model="tiny", **empty).json()
    assert r["done"] and r["done_reason"] == "load"
    assert "tiny:latest" in running(http)
    r = post(http, path, model="tiny", keep_alive=0, **empty).json()
    assert r["done"] and r["done_reason"] == "unload"
    assert "tiny:latest" not in running(http)
    # A request to unload a model that is not in memory does not load the model.
    assert post(http, path, model="plain", keep_alive=0, **empty).json()["done_reason"] == "unload"
    assert not running(http)


def expires_in(http):
    text = running(http)["tiny:latest"]["expires_at"]
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() - time.time()


def test_keep_alive(http):
    chat(http, keep_alive="1h30m")
    assert 5300 < expires_in(http) <= 5400
    # The longest time is models.max_keep_alive.
    chat(http, keep_alive=-1)
    assert 86300 < expires_in(http) <= 86400
    chat(http)
    assert 86300 < expires_in(http) <= 86400
    chat(http, keep_alive="200ms")
    for _ in range(100):
        if not running(http):
            break
        time.sleep(0.05)
    assert not running(http)
    chat(http, keep_alive=0)
    assert not running(http)


def test_a_kept_model_keeps_the_service(make_suite):
    suite = make_suite(chat="  idle_timeout: 300ms\n")
    with httpx.Client(base_url=suite.url, timeout=60 * SLOW) as http:
        chat(http, keep_alive="2s")
    start = time.monotonic()
    suite.gateway.kill()
    suite.chat.wait_gone(20 * SLOW)
    assert 1.5 < time.monotonic() - start < 10 * SLOW


def test_lists(http, stories):
    chat(http)
    listed = names(http, "tags")
    assert set(listed) == {"tiny:latest", "plain:latest", "tooled:latest", "bert:latest"}
    tiny = listed["tiny:latest"]
    assert tiny["name"] == "tiny:latest" and tiny["size"] > 0
    assert re.fullmatch("[0-9a-f]{64}", tiny["digest"])
    assert re.fullmatch(r"[\d-]{10}T[\d:.]+Z", tiny["modified_at"])
    assert tiny["details"]["format"] == "gguf" and tiny["details"]["families"] == ["llama"]
    assert tiny["details"]["parameter_size"] and tiny["details"]["quantization_level"]
    tiny_runs = running(http)["tiny:latest"]
    assert tiny_runs["digest"] == tiny["digest"] and tiny_runs["context_length"] > 0
    assert tiny_runs["size_vram"] == 0 and tiny_runs["size"] > 0


def test_ps_lists_models_for_vectors(http):
    embed = {"input": "a text", "model": "bert"}
    assert post(http, "embed", **embed, keep_alive="1h").status_code == 200
    # A model that makes vectors of texts and of tokens is listed once.
    assert http.post("/embed_all", json={"model": "bert", "inputs": "a"}).status_code == 200
    chat(http)
    listed = http.get("/api/ps").json()["models"]
    assert [m["name"] for m in listed].count("bert:latest") == 1
    assert {"bert:latest", "tiny:latest"} <= {m["name"] for m in listed}
    bert = names(http, "ps")["bert:latest"]
    assert bert["context_length"] == 80 and bert["size_vram"] == 0 and bert["size"] > 0
    assert bert["details"]["family"] == "bert" and bert["digest"] == names(
        http, "tags")["bert:latest"]["digest"]
    post(http, "embed", model="bert", input="", keep_alive=0)


def test_ps_starts_no_service_that_had_no_model(make_suite):
    suite = make_suite(chat="  idle_timeout: 300ms\n", embed="  idle_timeout: 300ms\n")
    with httpx.Client(base_url=suite.url, timeout=60 * SLOW) as http:
        assert http.get("/api/ps").json() == {"models": []}
        for service in (suite.chat, suite.embed):
            service.wait_gone(20 * SLOW)
        assert http.get("/api/ps").json() == {"models": []}
        assert suite.chat.starts == suite.embed.starts == 1
        chat(http)
        assert len(http.get("/api/ps").json()["models"]) == 1


def test_show(http, stories):
    tiny = post(http, "show", model="tiny:latest").json()
    assert tiny["capabilities"] == ["completion", "thinking"]
    assert "messages" in tiny["template"] and tiny["parameters"].startswith("num_ctx ")
    info = tiny["model_info"]
    assert info["general.architecture"] == "llama" and info["general.parameter_count"] > 0
    assert info["llama.context_length"] > 0 and info["llama.embedding_length"] > 0
    assert tiny["details"]["family"] == "llama" and tiny["details"]["format"] == "gguf"
    assert post(http, "show", model="plain").json()["capabilities"] == ["completion"]
    assert post(http, "show", model="tooled").json()["capabilities"] == ["completion", "tools"]
    bert = post(http, "show", name="bert", verbose=True).json()
    assert bert["capabilities"] == ["embedding"]
    assert bert["model_info"]["bert.embedding_length"] > 0
    # Showing a model does not load it.
    assert set(running(http)) <= {"tiny:latest"}
    refused(post(http, "show", model="none"), 404, "none")
    refused(post(http, "show"), 400, "model")
    refused(post(http, "show", model="tiny", colour=1), 400, "colour")


# --- the embed service ---

def test_embed(http):
    r = post(http, "embed", model="bert", input=["a text", "another"],
             options={"num_ctx": 512, "temperature": 1, "mirostat": 2}, keep_alive="5m").json()
    assert set(r) == {"model", "embeddings", "total_duration", "load_duration",
                      "prompt_eval_count"}
    assert len(r["embeddings"]) == 2 and r["prompt_eval_count"] > 0
    assert r["total_duration"] >= r["load_duration"] > 0
    one = post(http, "embed", model="bert:latest", input="a text").json()
    assert one["embeddings"] == r["embeddings"][:1]
    assert post(http, "embed", model="bert", input=[]).json()["embeddings"] == []
    # Texts that are too long are truncated unless the request says otherwise.
    long = "word " * 5000
    assert len(post(http, "embed", model="bert", input=long).json()["embeddings"]) == 1
    refused(post(http, "embed", model="bert", input=long, truncate=False), 400, "tokens")
    refused(post(http, "embed", model="bert", input=[1]), 400, "input")
    refused(post(http, "embed", model="bert", input="x", options={"wings": 2}), 400,
            "options.wings")
    refused(post(http, "embed", model="bert", input="x", encoding_format="float"), 400,
            "encoding_format")
    refused(post(http, "embed", model="none", input="x"), 404, "none")
    old = post(http, "embeddings", model="bert", prompt="a text").json()
    assert set(old) == {"embedding"} and len(old["embedding"]) == len(one["embeddings"][0])
    assert post(http, "embeddings", model="bert", prompt="").json() == {"embedding": []}
    refused(post(http, "embeddings", model="bert", prompt=["x"]), 400, "prompt")


def test_rerank(http):
    body = {"model": "bert-rank", "query": "what?", "documents": ["one", "two"], "top_n": 1}
    r = http.post("/api/rerank", json=body)
    assert r.status_code == 200 and len(r.json()["results"]) == 1, r.text
    assert r.json()["results"] == http.post("/v1/rerank", json=body).json()["results"]
    refused(http.post("/api/rerank", json={"query": "x"}), 400, "documents")


# --- the gateway ---

def test_version(http):
    version = http.get("/api/version").json()["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)


def test_models_are_not_published(http):
    r = http.request("POST", "/api/push", json={"model": "tiny"})
    refused(r, 501, "nothing leaves this machine")


@pytest.mark.parametrize("method, path", [("POST", "pull"), ("POST", "copy"), ("DELETE", "delete")])
def test_changes_of_the_store_need_the_right_to_manage(http, method, path):
    refused(http.request(method, "/api/" + path, json={"model": "tiny"}), 403, "manage")


def test_root_says_ollama_only_at_the_port_of_ollama(suite, http):
    assert http.get("/").text == "sconce\n"
    port = listen_tcp()
    suite.gateway.kill()
    suite.gateway.wait_gone()
    suite.gateway.close()
    unix = suite.gateway_sock + ".2"
    gateway = Service(suite.gateway.argv, [port, listen_unix(unix)], suite.gateway.env,
                      suite.gateway.log, names=["gateway-ollama", "gateway-unix"])
    suite.gateway = gateway
    suite.url = "http://127.0.0.1:%d" % port.getsockname()[1]
    assert httpx.get(suite.url).text == "Ollama is running"
    assert httpx.head(suite.url).status_code == 200
    assert httpx.get(suite.url + "/api/version").status_code == 200
    assert httpx.get(suite.url + "/v1/models").status_code == 200
    assert httpx.get(suite.url + "/api/version",
                     headers={"Origin": "http://evil.example"}).status_code == 403


def test_keys_guard_the_port(make_suite):
    suite = make_suite(gateway="  api_keys: [secret]\n")
    with httpx.Client(base_url=suite.url) as http:
        refused(http.get("/api/tags"), 401, "key")
        refused(post(http, "chat", model="tiny"), 401, "key")
        good = {"Authorization": "Bearer secret"}
        assert http.get("/api/tags", headers=good).status_code == 200


def test_a_broken_stream_is_no_end(make_suite, stories):
    suite = make_suite()
    body = {"model": "tiny", "messages": STORY, "options": {"num_predict": 400, "temperature": 3,
                                                            "seed": 1}}
    lines = []
    with httpx.Client(base_url=suite.url, timeout=60 * SLOW) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            with http.stream("POST", "/api/chat", json=body) as r:
                for line in r.iter_lines():
                    lines.append(json.loads(line))
                    if len(lines) == 2:
                        suite.chat.kill(signal.SIGKILL)
    assert list(lines[-1]) == ["error"]
    assert not any(line.get("done") for line in lines)
