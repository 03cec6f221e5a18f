# SPDX-License-Identifier: Apache-2.0
"""Tests tools, constrained answers and reasoning with OpenAI's client. The models are tiny and know
no tools, so the grammar alone makes their answers valid."""
import http.client
import json
import shutil

import pytest

from conftest import check_log, Suite
from gguf_template import set_chat_template

openai = pytest.importorskip("openai")

# The marks in a template by which services/chat/reply/formats.c recognizes each format.
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
OPEN = ("{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")
JOINED = ("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
          "{{ '[TOOL' + '_CALLS]' }}{% endfor %}{% endfor %}{% if tools %}.{% endif %}")
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
    set_chat_template(model_dir / "plain.gguf", path / "open.gguf", OPEN)
    for name, marks in MARKS.items():
        set_chat_template(model_dir / "plain.gguf", path / (name + ".gguf"),
                          TEMPLATE % json.dumps(marks, ensure_ascii=False))
    set_chat_template(model_dir / "plain.gguf", path / "joined.gguf", JOINED)
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
def test_required_calls_are_valid(client, model, stories):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    answer = call(client, model, n=4, tool_choice=choice)
    # Random texts may reach the limit of tokens.
    ended = [c for c in answer.choices if c.finish_reason != "length"]
    assert ended or model == "thinks"
    for c in ended:
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


def test_custom_tools_take_a_text(client):
    tool = {"type": "custom", "custom": {"name": "patch", "format": {
        "type": "grammar", "grammar": {"syntax": "regex", "definition": "a{2}[bc]\"\n[0-9]{3}"}}}}
    for model in ("hermes", "qwen-xml", "gemma4", "plain"):
        made = call(client, model, tools=[tool]).choices[0].message.tool_calls[0]
        assert made.type == "custom" and made.custom.name == "patch"
        text = made.custom.input
        assert len(text) == 8 and text[:2] == "aa" and text[3:5] == "\"\n" and text[5:].isdigit()
        stream, kinds = "", set()
        for chunk in call(client, model, tools=[tool], stream=True):
            for delta in chunk.choices[0].delta.tool_calls or []:
                stream += (delta.model_extra["custom"] or {}).get("input", "")
                kinds |= {delta.type}
        assert stream == text and "custom" in kinds


def test_no_call_is_made_if_none_is_wanted(client):
    for fields in ({"tool_choice": "none"}, {"tool_choice": "auto"}):
        message = call(client, "hermes", max_tokens=20, **fields).choices[0].message
        assert message.content and not message.tool_calls


def test_a_tool_by_name_is_called_once(client):
    body = {"messages": STORY, "tools": [NOW], "temperature": 1, "seed": 3, "max_tokens": 250,
            "tool_choice": {"type": "function", "function": {"name": "now"}}}
    answer = client.chat.completions.create(model="hermes", n=4, **body)
    assert [len(c.message.tool_calls) for c in answer.choices] == [1] * 4
    answer = client.chat.completions.create(model="hermes", n=4, parallel_tool_calls=True, **body)
    assert max(len(c.message.tool_calls) for c in answer.choices) > 1
    tool = {"type": "function", "name": "now", "parameters": NOW["function"]["parameters"]}
    made = client.responses.create(model="hermes", input="Once", tools=[tool], temperature=1,
                                   max_output_tokens=250,
                                   tool_choice={"type": "function", "name": "now"})
    assert [item.type for item in made.output] == ["function_call"]


def test_allowed_tools(client):
    choice = {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}}
    answer = call(client, "hermes", tool_choice=choice)
    assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["now"]


@pytest.mark.parametrize("model", ["hermes", "plain"])
def test_calls_and_results_are_part_of_the_prompt(client, model):
    first = call(client, model)
    call_made = first.choices[0].message
    messages = [*STORY, call_made.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call_made.tool_calls[0].id, "content": "Sunny"}]
    second = client.chat.completions.create(model=model, messages=messages, max_tokens=5,
                                            tools=[WEATHER, NOW])
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def bad(client, param, model="hermes", **fields):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model=model, messages=STORY, max_tokens=5, **fields)
    assert e.value.body["param"] == param, e.value


def test_what_tools_cannot_enforce_is_ignored_unless_they_are_strict(client, stories):
    days = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    function = {"name": "plan", "parameters": {
        "type": "object", "properties": {"days": days}, "required": ["days"]}}
    tools = [NOW, {"type": "function", "function": function}]
    answer = client.chat.completions.create(
        model="hermes", messages=STORY, max_tokens=300, tools=tools, temperature=1, seed=1, n=8,
        tool_choice={"type": "function", "function": {"name": "plan"}})
    # Random texts may reach the limit of tokens.
    ended = next(c for c in answer.choices if c.finish_reason == "tool_calls")
    arguments = json.loads(ended.message.tool_calls[0].function.arguments)
    assert all(isinstance(day, str) for day in arguments["days"])
    strict = {"type": "function", "function": {**function, "strict": True}}
    bad(client, "tools[1].function.parameters", tools=[NOW, strict])


def test_schemas_that_cannot_be_compiled_are_refused(client):
    broken = {"type": "object", "properties": {"a": {"type": "strong"}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": broken}}
    bad(client, "tools[1].function.parameters", tools=[NOW, tool])
    bad(client, "response_format.json_schema.schema",
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": broken}})
    bad(client, "guided_regex", extra_body={"guided_regex": "a("})
    for value in ({"type": "text", "value": {}}, {"type": "json", "value": 1},
                  {"type": "regex", "value": "a("}, {"type": "json", "value": {}, "schema": {}}):
        bad(client, "response_format" + ".value" * (value["type"] != "text"),
            extra_body={"response_format": value})
    bad(client, "grammar", extra_body={"grammar": "root ::= other"})
    bad(client, "tools[0].custom.format", tools=[{"type": "custom", "custom": {
        "name": "f", "format": {"type": "grammar",
                                "grammar": {"syntax": "lark", "definition": "start: ("}}}}])


PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}


@pytest.mark.parametrize("model", ["tiny", "hermes", "harmony"])
def test_answers_fit_a_schema(client, model):
    fields = {"max_tokens": 300, "temperature": 1, "seed": 1, "n": 2, "logprobs": True,
              "reasoning_effort": "none",
              "response_format": {"type": "json_schema", "json_schema": {
                  "name": "person", "strict": True, "schema": PERSON}}}
    answer = client.chat.completions.create(model=model, messages=STORY, **fields)
    for c in answer.choices:
        person = json.loads(c.message.content)
        assert set(person) == {"name", "age"} and 0 <= person["age"] <= 99
        assert len(person["name"]) <= 12 and c.finish_reason == "stop" and c.logprobs.content
    texts = ["", ""]
    for chunk in client.chat.completions.create(model=model, messages=STORY, stream=True, **fields):
        for c in chunk.choices:
            texts[c.index] += c.delta.content or ""
    assert texts == [c.message.content for c in answer.choices]


def test_fields_of_other_servers_constrain_answers(client, stories):
    def ask(**extra):
        return client.chat.completions.create(
            model="tiny", messages=STORY, max_tokens=60, seed=2, temperature=1,
            extra_body=extra).choices[0].message.content

    assert ask(guided_choice=["yes", "no"]) in ("yes", "no")
    assert ask(guided_regex="[ab]{3}c").rstrip("c") in [a + b + c for a in "ab" for b in "ab"
                                                        for c in "ab"]
    assert json.loads(ask(guided_json={"enum": ["x"]})) == "x"
    assert ask(guided_grammar='start: "a" | "b"') in ("a", "b")
    assert ask(grammar='root ::= "q" [0-9] "z"')[::2] == "qz"
    assert ask(structured_outputs={"choice": ["one"]}) == "one"
    assert json.loads(ask(json_schema={"const": 7})) == 7
    value = {"type": "json_object", "value": {"const": 8}}
    assert json.loads(ask(response_format=value)) == 8
    assert ask(response_format={"type": "regex", "value": "[0-9]z"})[1:] == "z"
    assert isinstance(json.loads(ask(response_format={"type": "json_object"}, max_tokens=400,
                                     enable_thinking=False)), dict)


def test_completions_are_constrained(client):
    answer = client.completions.create(model="tiny", prompt="Once", max_tokens=20,
                                       extra_body={"guided_regex": "[0-9]{4}"})
    assert len(answer.choices[0].text) == 4 and answer.choices[0].text.isdigit()



@pytest.mark.parametrize("model", ["open", "thinks"])
def test_variables_of_the_template_switch_reasoning_off(client, model):
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    answer = call(client, model, tools=[NOW], n=4, extra_body=extra)
    assert all(c.message.tool_calls for c in answer.choices)
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


def test_reasoning_is_told_apart_and_has_a_budget(client, stories):
    def ask(**fields):
        fields = {"max_tokens": 40, "temperature": 1, "seed": 1, **fields}
        return client.chat.completions.create(model="open", messages=STORY, **fields)

    answer = ask()
    assert answer.choices[0].message.content == "" and answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.model_extra["reasoning_content"]
    assert answer.usage.completion_tokens_details.reasoning_tokens == 40
    for budget in ("thinking_budget", "reasoning_budget", "thinking_budget_tokens"):
        answer = ask(extra_body={budget: 8, "reasoning_budget": 8})
        message = answer.choices[0].message
        assert message.content and message.model_extra["reasoning_content"]
        assert 8 <= answer.usage.completion_tokens_details.reasoning_tokens < 30
    for fields in ({"reasoning_effort": "none"}, {"extra_body": {"enable_thinking": False}},
                   {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}):
        message = ask(**fields).choices[0].message
        assert message.content and "reasoning_content" not in (message.model_extra or {})


def test_reasoning_streams_before_the_answer_and_before_calls(client):
    fields = {"max_tokens": 250, "temperature": 1, "seed": 1, "stream": True,
              "stream_options": {"include_usage": True}, "extra_body": {"thinking_budget": 8}}
    kinds, usage = [], None
    for chunk in client.chat.completions.create(model="open", messages=STORY, tools=[NOW],
                                                tool_choice="required",
                                                parallel_tool_calls=False, **fields):
        usage = chunk.usage or usage
        for c in chunk.choices:
            extra = c.delta.model_extra or {}
            kinds += ["reasoning"] if extra.get("reasoning_content") else []
            kinds += ["call"] if c.delta.tool_calls else []
            kinds += ["text"] if c.delta.content else []
    assert kinds[0] == "reasoning" and kinds[-1] == "call" and "text" not in kinds
    assert kinds == sorted(kinds, reverse=True)
    assert usage.completion_tokens_details.reasoning_tokens >= 8


def test_models_that_do_not_reason_refuse_to(client):
    bad(client, "reasoning_effort", model="plain", reasoning_effort="high")
    bad(client, "enable_thinking", model="plain", extra_body={"enable_thinking": True})
    client.chat.completions.create(model="plain", messages=STORY, max_tokens=1,
                                   extra_body={"enable_thinking": False})


def test_many_different_grammars_and_hostile_schemas(client):
    for i in range(36):
        answer = client.completions.create(model="tiny", prompt="Once", max_tokens=9,
                                           extra_body={"guided_regex": f"{i:03d}[0-9]"})
        assert answer.choices[0].text.startswith(f"{i:03d}")
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}}
    ring = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}] * 50}}}
    for model, schema in (("qwen-xml", wide), ("gemma4", wide), ("gemma4", ring), ("hermes", ring)):
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        with pytest.raises(openai.BadRequestError) as e:
            call(client, model, tools=[tool], max_tokens=3, timeout=20)
        assert e.value.body["param"].startswith("tools")


def test_calls_with_probabilities_stops_and_several_choices(client):
    answer = call(client, "hermes", n=3, logprobs=True, top_logprobs=2, stop=["never this"])
    for c in answer.choices:
        assert c.finish_reason == "tool_calls" and len(c.message.tool_calls) == 1
        text = b"".join(bytes(t.bytes) for t in c.logprobs.content).decode()
        assert text.startswith("<tool_call>") and text.endswith("</tool_call>")
    calls = {}
    for chunk in call(client, "hermes", n=3, stream=True):
        for c in chunk.choices:
            for delta in c.delta.tool_calls or []:
                calls[c.index] = calls.get(c.index, "") + (delta.function.arguments or "")
    assert [calls[i] for i in range(3)] == [c.message.tool_calls[0].function.arguments
                                            for c in answer.choices]


def test_templates_show_the_tools(suite):
    for model, wanted in (("plain", '"get_weather"'), ("hermes", "2Once")):
        status, body, _ = suite_post(suite, {"model": model, "messages": STORY,
                                             "tools": [WEATHER, NOW]})
        assert status == 200 and wanted in body["prompt"]
        status, body, _ = suite_post(suite, {"model": model, "messages": STORY, "tools": [NOW],
                                             "tool_choice": "none"})
        assert "now" not in body["prompt"]


def suite_post(suite, body):
    connection = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60)
    connection.request("POST", "/apply-template", json.dumps(body))
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer, response.headers


def test_a_template_shows_its_format_by_writing_a_call(client):
    made = call(client, "joined", tool_choice="required").choices[0].message.tool_calls[0]
    assert len(made.id) == 9  # as Mistral's


@pytest.mark.parametrize("model", ["hermes", "qwen-xml", "gemma4", "lfm2", "minimax"])
def test_unusual_parameters(client, model):
    odd = [None, {}, {"type": "object"}, {"properties": {"any": True, "n": {"$ref": "#/$defs/n"}},
                                          "required": ["n"], "additionalProperties": False,
                                          "$defs": {"n": {"enum": [1, 2]}}}]
    for parameters in odd:
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        c = call(client, model, tools=[tool], max_tokens=400, temperature=0).choices[0]
        if c.finish_reason == "length":
            continue
        arguments = json.loads(c.message.tool_calls[0].function.arguments)
        assert isinstance(arguments, dict)
        assert not parameters or "$defs" not in parameters or arguments["n"] in (1, 2)
