# SPDX-License-Identifier: Apache-2.0
"""Tests the helpers of clients and frameworks: answers that become objects of a class, objects that
grow during a stream, loops of agents, and rankings. The helpers are also called asynchronously, and
over the unix socket.

As in test_clients.py, the model is tiny, the grammar alone makes the answers valid, and a client
whose package is not installed is skipped.
"""
import asyncio
import shutil

import pytest

from conftest import Suite, check_log
from gguf_template import set_chat_template
from test_clients import HERMES, STORY, Trip, httpx_of
from test_embed import add_separators, copy_models

pydantic = pytest.importorskip("pydantic")
ENDPOINTS = pytest.mark.parametrize("endpoint", ["tcp", "unix"])


class Stay(pydantic.BaseModel):
    """A stay in a city."""
    model_config = pydantic.ConfigDict(extra="forbid")
    nights: int = pydantic.Field(ge=1, le=7, description="How long")
    price: float = pydantic.Field(gt=0, lt=100, multiple_of=0.5)
    code: str = pydantic.Field(min_length=2, max_length=4)
    rooms: list[bool] = pydantic.Field(min_length=2, max_length=3)


@pytest.fixture(scope="module")
def suite(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("helpers")
    set_chat_template(model_dir / "plain.gguf", path / "tiny.gguf", HERMES)
    shutil.copy(model_dir / "plain.gguf", path / "plain.gguf")
    copy_models(path, "bert-mean", "bert-rank")
    add_separators(path / "bert-rank")
    suite = Suite(path, chat="  context: 4096\n", keep="",
                  embed="  default_model: bert-mean\n  default_reranker: bert-rank\n")
    yield suite
    check_log(suite.close())


def place(suite, endpoint, path):
    return suite.url + path if endpoint == "tcp" else "http://localhost" + path


def transports(suite, endpoint, package="httpx"):
    """Returns two HTTP clients for an endpoint: a synchronous and an asynchronous one. None means
    that the default client of the package is used."""
    if endpoint == "tcp":
        return None, None
    httpx = pytest.importorskip(package)
    return (httpx.Client(transport=httpx.HTTPTransport(uds=suite.gateway_sock), timeout=60),
            httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=suite.gateway_sock),
                              timeout=60))


@ENDPOINTS
def test_anthropic_parses_answers_with_bounds(suite, endpoint):
    """Tests answers with bounds. The client removes bounds from the schema before it sends the
    schema, and checks them in the answer."""
    anthropic = pytest.importorskip("anthropic")
    if not hasattr(anthropic.resources.Messages, "parse"):
        pytest.skip("this version of anthropic cannot parse answers")
    wait, hurry = transports(suite, endpoint, httpx_of(anthropic))
    url = place(suite, endpoint, "")
    client = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, http_client=wait)
    fields = {"model": "tiny", "max_tokens": 200, "messages": STORY, "output_format": Stay}
    for _ in range(4):
        assert isinstance(client.messages.parse(**fields).parsed_output, Stay)
    with client.messages.stream(**fields) as stream:
        assert isinstance(stream.get_final_message().parsed_output, Stay)

    async def ask():
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0,
                                            http_client=hurry) as client:
            async with client.messages.stream(model="tiny", max_tokens=5, messages=STORY) as stream:
                text = "".join([part async for part in stream.text_stream])
            return text, await client.messages.parse(**fields)

    text, made = asyncio.run(ask())
    assert text and isinstance(made.parsed_output, Stay)


@ENDPOINTS
def test_openai_parses_without_waiting(suite, endpoint):
    openai = pytest.importorskip("openai")
    _, hurry = transports(suite, endpoint)

    async def ask():
        async with openai.AsyncOpenAI(base_url=place(suite, endpoint, "/v1"), api_key="x",
                                      max_retries=0, http_client=hurry) as client:
            fields = {"model": "tiny", "messages": STORY, "max_tokens": 200}
            async with client.chat.completions.stream(response_format=Stay, **fields) as stream:
                made = await stream.get_final_completion()
            async with client.responses.stream(model="tiny", input="Hi", text_format=Stay,
                                               max_output_tokens=200) as stream:
                response = await stream.get_final_response()
            return made.choices[0].message.parsed, response.output_parsed

    assert all(isinstance(made, Stay) for made in asyncio.run(ask()))


@ENDPOINTS
def test_ollama_parses_without_waiting(suite, endpoint):
    ollama = pytest.importorskip("ollama")
    more = {}
    if endpoint == "unix":
        more["transport"] = pytest.importorskip("httpx").AsyncHTTPTransport(uds=suite.gateway_sock)

    async def ask():
        client = ollama.AsyncClient(host=place(suite, endpoint, ""), **more)
        parts = await client.chat(model="tiny", messages=STORY, format=Trip.model_json_schema(),
                                  options={"num_predict": 200}, stream=True)
        text = "".join([part.message.content or "" async for part in parts])
        return text, await client.embed(model="bert-mean", input=["a", "b"])

    text, vectors = asyncio.run(ask())
    assert Trip.model_validate_json(text) and len(vectors.embeddings) == 2


@ENDPOINTS
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_langchain_makes_objects(suite, endpoint, method):
    langchain = pytest.importorskip("langchain_openai")
    wait, hurry = transports(suite, endpoint)
    # json_mode does not send the schema, so any JSON object is right, also one that is cut off.
    raw = method == "json_mode"
    model = langchain.ChatOpenAI(
        model="tiny", base_url=place(suite, endpoint, "/v1"), api_key="x", max_retries=0,
        max_tokens=200, temperature=0, http_client=wait, http_async_client=hurry,
    ).with_structured_output(Trip, method=method, include_raw=raw)
    cut = pytest.importorskip("openai").LengthFinishReasonError

    async def ask():
        return [part async for part in model.astream("Once")]

    try:
        made = [model.invoke("Once"), [*model.stream("Once")][-1], asyncio.run(ask())[-1]]
        assert raw or all(isinstance(m, Trip) for m in made), made
    except cut:
        assert raw


@ENDPOINTS
def test_llama_index_calls_tools(suite, endpoint):
    pytest.importorskip("llama_index.llms.openai_like")
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike
    wait, hurry = transports(suite, endpoint)
    llm = OpenAILike(model="tiny", api_base=place(suite, endpoint, "/v1"), api_key="x",
                     max_retries=0, is_chat_model=True, is_function_calling_model=True,
                     context_window=4096, max_tokens=200, http_client=wait,
                     async_http_client=hurry)
    tool = FunctionTool.from_defaults(lambda **arguments: "booked", name="trip",
                                      description="Books a trip", fn_schema=Trip)
    fields = {"tools": [tool], "user_msg": "Once", "tool_required": True}

    def check(answer):
        call, = llm.get_tool_calls_from_response(answer)[:1]
        assert call.tool_name == "trip" and Trip(**call.tool_kwargs)

    async def ask():
        parts = await llm.astream_chat_with_tools(**fields)
        return await llm.achat_with_tools(**fields), [part async for part in parts]

    check(llm.chat_with_tools(**fields))
    check([*llm.stream_chat_with_tools(**fields)][-1])
    answer, parts = asyncio.run(ask())
    check(answer)
    check(parts[-1])


def test_litellm_ranks_and_streams(suite, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    ranked = litellm.rerank(model="cohere/bert-rank", api_base=suite.url, api_key="x", query="a",
                            documents=["b", "c", "a"], top_n=2)
    assert len(ranked.results) == 2
    vectors = litellm.embedding(model="openai/bert-mean", api_base=suite.url + "/v1", api_key="x",
                                input=["a", "b"])
    assert len(vectors.data) == 2
    tool = {"type": "function", "function": {"name": "trip",
                                             "parameters": Trip.model_json_schema()}}

    async def ask(provider, path):
        parts = await litellm.acompletion(
            model=provider + "/tiny", api_base=suite.url + path, api_key="x", messages=STORY,
            tools=[tool], tool_choice="required", max_tokens=200, num_retries=0, stream=True)
        return litellm.stream_chunk_builder([part async for part in parts])

    for provider, path in (("openai", "/v1"), ("anthropic", "")):
        call = asyncio.run(ask(provider, path)).choices[0].message.tool_calls[0]
        assert Trip.model_validate_json(call.function.arguments), provider


@ENDPOINTS
def test_instructor_streams_objects(suite, endpoint):
    instructor, openai = pytest.importorskip("instructor"), pytest.importorskip("openai")
    wait, hurry = transports(suite, endpoint)
    url = place(suite, endpoint, "/v1")
    fields = {"model": "tiny", "messages": STORY, "response_model": Trip, "max_tokens": 200,
              "max_retries": 0}
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(
            openai.OpenAI(base_url=url, api_key="x", max_retries=0, http_client=wait), mode=mode)
        last = [*client.chat.completions.create_partial(**fields)][-1]
        assert Trip(**last.model_dump())

    async def ask():
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0,
                                      http_client=hurry) as base:
            client = instructor.from_openai(base, mode=instructor.Mode.TOOLS)
            return await client.chat.completions.create(**fields)

    assert isinstance(asyncio.run(ask()), Trip)


def test_instructor_lets_the_model_think(suite):
    instructor, anthropic = pytest.importorskip("instructor"), pytest.importorskip("anthropic")
    if not hasattr(instructor.Mode, "ANTHROPIC_REASONING_TOOLS"):
        pytest.skip("this version of instructor has no such mode")
    client = instructor.from_anthropic(
        anthropic.Anthropic(base_url=suite.url, api_key="x", max_retries=0),
        mode=instructor.Mode.ANTHROPIC_REASONING_TOOLS)
    fields = {"model": "tiny", "messages": STORY, "response_model": Trip, "max_tokens": 200}
    # In this mode the model decides whether it calls the tool. Only a forced call is certain.
    made = client.messages.create(**fields, max_retries=0, tool_choice={
        "type": "tool", "name": "Trip", "disable_parallel_tool_use": True})
    assert isinstance(made, Trip)
