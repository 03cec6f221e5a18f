# SPDX-License-Identifier: Apache-2.0
"""Tests tools, constrained answers and reasoning with OpenAI's client. The models are tiny and know
no tools, so the grammar alone makes their answers valid."""
import json
import shutil

import openai
import pytest

from conftest import check_log, Suite
from gguf_template import set_chat_template

# What the templates of the families have in common with the formats of services/chat/reply.
MARKS = {
    "hermes": "<tool_call> </tool_call>",
    "qwen-xml": "<tool_call> <function= <parameter=",
    "glm": "<tool_call> <arg_key> <arg_value>",
    "minimax": "<minimax:tool_call>",
    "deepseek-v3.2": "｜DSML｜",
    "deepseek-v3": "<｜tool▁calls▁begin｜> ```json",
    "deepseek-v3.1": "<｜tool▁calls▁begin｜>",
    "kimi-k2": "<|tool_calls_section_begin|>",
    "gemma4": "<|tool_call> <tool_call|>",
    "harmony": "<|channel|> <|message|>",
    "llama3": "<|python_tag|>",
    "mistral": "[TOOL_CALLS]",
    "mistral-named": "[TOOL_CALLS] [ARGS]",
    "granite": "<|tool_call|>",
    "lfm2": "<|tool_list_start|>",
    "pythonic": "[func_name1(",
    "json": "",
    "thinks": "<tool_call> </tool_call> <think> </think>",
}
TEMPLATE = ("{%% if tools %%}{{ tools | length }}{%% endif %%}{%% for m in messages %%}"
            "{{ m.content }}{%% endfor %%}{%% set marks = %s %%}{{ opening }}")
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Rome"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "detailed": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather", "parameters": SCHEMA}}
NOW = {"type": "function", "function": {
    "name": "now", "parameters": {"type": "object", "properties": {},
                                  "additionalProperties": False}}}
STORY = [{"role": "user", "content": "Once upon a time there was"}]


@pytest.fixture(scope="module")
def suite(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("tools")
    shutil.copy(model_dir / "tiny.gguf", path / "tiny.gguf")
    set_chat_template(model_dir / "plain.gguf", path / "plain.gguf", PLAIN)
    for name, marks in MARKS.items():
        set_chat_template(model_dir / "plain.gguf", path / (name + ".gguf"),
                          TEMPLATE % json.dumps(marks, ensure_ascii=False))
    suite = Suite(path, chat="  max_models: 2\n")
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def client(suite):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{suite.port}/v1", api_key="x", max_retries=0)


def check_arguments(text):
    arguments = json.loads(text)
    assert set(arguments) <= set(SCHEMA["properties"]) and {"city", "days"} <= set(arguments)
    assert arguments["city"] in ("Oslo", "Rome")
    assert isinstance(arguments["days"], int) and 1 <= arguments["days"] <= 7
    assert isinstance(arguments.get("detailed", True), bool)
    assert set(arguments.get("tags", [])) <= {"a", "b"}


def call(client, model, **fields):
    fields = {"tools": [WEATHER, NOW], "tool_choice": "required", "max_tokens": 250,
              "temperature": 1, "seed": 3, "parallel_tool_calls": False, **fields}
    return client.chat.completions.create(model=model, messages=STORY, **fields)


@pytest.mark.parametrize("model", [*MARKS, "plain"])
def test_required_calls_are_valid(client, model):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    answer = call(client, model, n=2, tool_choice=choice)
    for c in answer.choices:
        if c.finish_reason == "length" and model == "thinks":
            continue
        assert c.finish_reason == "tool_calls", c
        assert len(c.message.tool_calls) == 1
        made = c.message.tool_calls[0]
        assert made.type == "function" and made.id
        assert made.function.name == "get_weather"
        check_arguments(made.function.arguments)


@pytest.mark.parametrize("model", ["hermes", "qwen-xml", "gemma4", "harmony", "lfm2"])
def test_streams_have_the_same_calls(client, model):
    fields = {"tool_choice": "required", "seed": 5}
    whole = call(client, model, **fields).choices[0]
    name, arguments, ids, finish = "", "", [], None
    for chunk in call(client, model, stream=True, **fields):
        for c in chunk.choices:
            finish = c.finish_reason or finish
            for delta in c.delta.tool_calls or []:
                assert delta.index == 0
                ids += [delta.id] if delta.id else []
                name += delta.function.name or ""
                arguments += delta.function.arguments or ""
    assert finish == whole.finish_reason == "tool_calls" and len(ids) == 1
    assert name == whole.message.tool_calls[0].function.name
    assert arguments == whole.message.tool_calls[0].function.arguments
