# SPDX-License-Identifier: Apache-2.0
"""Tests that clients and frameworks work unchanged: plain answers, streams, tools and schemas.

The model is tiny and knows no tools, so the grammar alone makes the answers valid. A client whose
package is not installed is skipped.
"""
import asyncio
import json
import os
import pathlib
import shutil
import subprocess
from typing import Literal

import pytest

from conftest import check_log, Suite
from gguf_template import set_chat_template

pydantic = pytest.importorskip("pydantic")

HERMES = ("{% if tools %}{{ tools | length }}{% endif %}{% for m in messages %}{{ m.content }}"
          "{% endfor %}{% set marks = '<tool_call> </tool_call>' %}")
STORY = [{"role": "user", "content": "Once upon a time"}]
JS = pathlib.Path(__file__).parent / "js"


class Trip(pydantic.BaseModel):
    """A trip to a city."""
    model_config = pydantic.ConfigDict(extra="forbid")
    city: Literal["Oslo", "Rome"]
    days: Literal[1, 2, 3]
    guided: bool


@pytest.fixture(scope="module")
def suite(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("clients")
    set_chat_template(model_dir / "plain.gguf", path / "tiny.gguf", HERMES)
    shutil.copy(model_dir / "plain.gguf", path / "plain.gguf")
    suite = Suite(path, chat="  context: 4096\n", keep="")
    yield suite
    check_log(suite.close())


def plain_and_stream(ask, stream):
    assert ask()
    assert "".join(stream())


# The clients of the three APIs.


@pytest.fixture(params=["tcp", "unix"])
def openai_client(suite, request):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(api_key="x", max_retries=0, **at(suite, request.param, "/v1", "httpx"))


@pytest.fixture(params=["tcp", "unix"])
def anthropic_client(suite, request):
    anthropic = pytest.importorskip("anthropic")
    return anthropic.Anthropic(api_key="x", max_retries=0,
                               **at(suite, request.param, "", httpx_of(anthropic)))


def httpx_of(package):
    """Returns the name of the HTTP package that a client uses."""
    return "httpx2" if "httpx2" in str(package.DefaultHttpxClient.__mro__) else "httpx"


def at(suite, endpoint, path, httpx):
    if endpoint == "tcp":
        return {"base_url": suite.url + path}
    httpx = pytest.importorskip(httpx)
    transport = httpx.HTTPTransport(uds=suite.gateway_sock)
    return {"base_url": "http://localhost" + path,
            "http_client": httpx.Client(transport=transport, timeout=60)}


def test_openai_parses_answers(openai_client):
    fields = {"model": "tiny", "messages": STORY, "max_tokens": 200}
    made = openai_client.chat.completions.parse(response_format=Trip, **fields)
    assert isinstance(made.choices[0].message.parsed, Trip)
    with openai_client.chat.completions.stream(response_format=Trip, **fields) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Trip)
    made = openai_client.responses.parse(model="tiny", input="Hello", text_format=Trip,
                                         max_output_tokens=200)
    assert isinstance(made.output_parsed, Trip)


def test_openai_parses_calls(openai_client):
    import openai
    tools = [openai.pydantic_function_tool(Trip)]
    fields = {"model": "tiny", "messages": STORY, "max_tokens": 200, "tools": tools,
              "tool_choice": "required", "parallel_tool_calls": False}
    call = openai_client.chat.completions.parse(**fields).choices[0].message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, Trip)
    with openai_client.chat.completions.stream(**fields) as stream:
        kinds = {event.type for event in stream}
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, Trip)
    assert "tool_calls.function.arguments.done" in kinds


def test_openai_without_waiting(suite):
    openai = pytest.importorskip("openai")

    async def ask():
        async with openai.AsyncOpenAI(base_url=suite.url + "/v1", api_key="x") as client:
            fields = {"model": "tiny", "messages": STORY, "max_tokens": 5}
            answers = await asyncio.gather(*(client.chat.completions.create(**fields)
                                             for _ in range(3)))
            stream = await client.chat.completions.create(stream=True, **fields)
            return answers, [chunk async for chunk in stream]

    answers, chunks = asyncio.run(ask())
    assert all(a.choices[0].message.content for a in answers)
    # The choice of tokens is random, and some models may end their text after a few of them.
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


ANTHROPIC_TOOL = {"name": "trip", "input_schema": Trip.model_json_schema()}


def test_anthropic_calls(anthropic_client):
    fields = {"model": "tiny", "messages": STORY, "max_tokens": 200, "tools": [ANTHROPIC_TOOL],
              "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    made = anthropic_client.messages.create(**fields)
    assert made.stop_reason == "tool_use" and Trip(**made.content[-1].input)
    with anthropic_client.messages.stream(**fields) as stream:
        assert Trip(**stream.get_final_message().content[-1].input)
    counted = anthropic_client.messages.count_tokens(model="tiny", messages=STORY,
                                                     tools=[ANTHROPIC_TOOL])
    assert counted.input_tokens == made.usage.input_tokens + made.usage.cache_read_input_tokens


def test_anthropic_runs_tools(anthropic_client):
    import anthropic
    if not hasattr(anthropic, "beta_tool"):
        pytest.skip("this version of anthropic has no tool runner")
    runs = []

    @anthropic.beta_tool(input_schema=Trip.model_json_schema())
    def trip(**arguments) -> str:
        """Books a trip."""
        runs.append(Trip(**arguments))
        return "booked"

    runner = anthropic_client.beta.messages.tool_runner(
        model="tiny", max_tokens=200, messages=STORY, tools=[trip], max_iterations=2,
        tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert [m.stop_reason for m in runner] == ["tool_use", "tool_use"] and runs


def test_ollama_parses_answers(suite):
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=suite.url)
    options = {"num_predict": 200}
    made = client.chat(model="tiny", messages=STORY, format=Trip.model_json_schema(),
                       options=options)
    assert Trip.model_validate_json(made.message.content)
    options = {"num_predict": 5}
    plain_and_stream(
        lambda: client.chat(model="tiny", messages=STORY, options=options).message.content,
        lambda: (part.message.content or "" for part in client.chat(
            model="tiny", messages=STORY, options=options, stream=True)))


# Frameworks.


def test_langchain(suite):
    langchain = pytest.importorskip("langchain_openai")

    def model(max_tokens=200):
        return langchain.ChatOpenAI(model="tiny", base_url=suite.url + "/v1", api_key="x",
                                    max_tokens=max_tokens, max_retries=0)

    plain_and_stream(lambda: model(5).invoke("Once").content,
                     lambda: (part.content for part in model(5).stream("Once")))
    for method in ("json_schema", "function_calling"):
        made = model().with_structured_output(Trip, method=method).invoke("Once")
        assert isinstance(made, Trip), method
    bound = model().bind_tools([Trip], tool_choice="required", parallel_tool_calls=False)
    first = bound.invoke("Once")
    assert Trip(**first.tool_calls[0]["args"])
    from langchain_core.messages import HumanMessage, ToolMessage
    result = ToolMessage("booked", tool_call_id=first.tool_calls[0]["id"])
    assert model(5).bind_tools([Trip]).invoke([HumanMessage("Once"), first, result])
    # This mode asks for any JSON object; the grammar makes the answer a JSON object.
    raw = model(400).with_structured_output(Trip, method="json_mode", include_raw=True)
    try:
        assert isinstance(json.loads(raw.invoke("Once")["raw"].content), dict)
    except pytest.importorskip("openai").LengthFinishReasonError:
        pass


def test_llama_index(suite):
    pytest.importorskip("llama_index.llms.openai_like")
    from llama_index.core.prompts import PromptTemplate
    from llama_index.llms.openai_like import OpenAILike

    def model(max_tokens=200, **fields):
        return OpenAILike(model="tiny", api_base=suite.url + "/v1", api_key="x", max_retries=0,
                          is_chat_model=True, is_function_calling_model=True,
                          context_window=4096, max_tokens=max_tokens, **fields)

    plain_and_stream(lambda: model(5).complete("Once").text,
                     lambda: (part.delta or "" for part in model(5).stream_complete("Once")))
    assert isinstance(model().as_structured_llm(Trip).complete("Once").raw, Trip)
    native = model(should_use_structured_outputs=True)
    assert isinstance(native.structured_predict(Trip, PromptTemplate("Once")), Trip)


@pytest.mark.parametrize("provider,path", [("openai", "/v1"), ("anthropic", ""),
                                           ("ollama_chat", "")])
def test_litellm(suite, provider, path, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    fields = {"model": provider + "/tiny", "api_base": suite.url + path, "api_key": "x",
              "messages": STORY, "num_retries": 0}
    plain_and_stream(
        lambda: litellm.completion(max_tokens=5, **fields).choices[0].message.content,
        lambda: (part.choices[0].delta.content or "" for part in litellm.completion(
            max_tokens=5, stream=True, **fields)))
    made = litellm.completion(max_tokens=200, response_format=Trip, **fields)
    assert Trip.model_validate_json(made.choices[0].message.content)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS",
                                  "ANTHROPIC_TOOLS"])
def test_instructor(suite, mode):
    instructor = pytest.importorskip("instructor")
    fields = {"model": "tiny", "messages": STORY, "response_model": Trip, "max_retries": 0}
    if mode.startswith("ANTHROPIC"):
        anthropic = pytest.importorskip("anthropic")
        client = instructor.from_anthropic(anthropic.Anthropic(base_url=suite.url, api_key="x"),
                                           mode=instructor.Mode[mode])
        assert isinstance(client.messages.create(max_tokens=200, **fields), Trip)
        return
    openai = pytest.importorskip("openai")
    client = instructor.from_openai(openai.OpenAI(base_url=suite.url + "/v1", api_key="x"),
                                    mode=instructor.Mode[mode])
    limit = "max_output_tokens" if mode.startswith("RESPONSES") else "max_tokens"
    assert isinstance(client.chat.completions.create(**fields, **{limit: 200}), Trip)


def test_huggingface(suite):
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(base_url=suite.url + "/v1", api_key="x", timeout=60)
    fields = {"model": "tiny", "max_tokens": 200}
    made = client.chat_completion(STORY, response_format={
        "type": "json_schema", "json_schema": {"name": "trip", "strict": True,
                                               "schema": Trip.model_json_schema()}}, **fields)
    assert Trip.model_validate_json(made.choices[0].message.content)
    tool = {"type": "function", "function": {"name": "trip", "description": "Books a trip",
                                             "parameters": Trip.model_json_schema()}}
    made = client.chat_completion(STORY, tools=[tool], tool_choice="required", **fields)
    assert Trip(**json.loads(made.choices[0].message.tool_calls[0].function.arguments))


# Clients in JavaScript: SCONCE_TEST_NODE_MODULES names a folder node_modules with their packages.


@pytest.mark.parametrize("script", sorted(JS.glob("*.mjs")), ids=lambda path: path.stem)
def test_javascript(suite, script):
    packages = os.environ.get("SCONCE_TEST_NODE_MODULES")
    if not packages or not shutil.which("node"):
        pytest.skip("set SCONCE_TEST_NODE_MODULES to a folder node_modules, and install node")
    result = subprocess.run(["node", str(script), suite.url, packages, suite.gateway_sock],
                            capture_output=True, text=True, timeout=120)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr
