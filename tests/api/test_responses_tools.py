# SPDX-License-Identifier: Apache-2.0
"""Tests tools, constrained answers and reasoning of /v1/responses. The models are tiny and know no
tools, so the grammar alone makes their answers valid."""
import json
import re

import pytest

from conftest import Suite, check_log
from gguf_template import set_chat_template

openai = pytest.importorskip("openai")

TEMPLATE = ("{%% if tools %%}{{ tools | length }}{%% endif %%}{%% for m in messages %%}{{ m.role }}"
            "{{ m.reasoning_content }}{{ m.content }}{%% for c in m.tool_calls %%}"
            "{{ c.function.name }}{{ c.function.arguments }}{%% endfor %%}{%% endfor %%}"
            "{%% set marks = '%s' %%}{{ opening }}")
CALLS, THINKS = "<tool_call> </tool_call>", "<tool_call> </tool_call> <think> </think>"
SCHEMA = {"type": "object", "required": ["city"], "additionalProperties": False,
          "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}}}
LOOK = {"type": "function", "name": "look", "description": "The weather", "parameters": SCHEMA}
SPACE = {"type": "namespace", "name": "sky", "description": "The sky", "tools": [LOOK]}
PATCH = {"type": "custom", "name": "patch", "description": "A change", "format": {
    "type": "grammar", "syntax": "lark",
    "definition": 'start: "*** Begin\\n" LINE "*** End"\nLINE: /[+-][ab]{1,4}/ "\\n"\n'}}


@pytest.fixture(scope="module")
def client(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    set_chat_template(model_dir / "plain.gguf", path / "calls.gguf", TEMPLATE % CALLS)
    set_chat_template(model_dir / "plain.gguf", path / "thinks.gguf", TEMPLATE % THINKS)
    suite = Suite(path, chat="  max_models: 2\n", keep="")
    yield openai.OpenAI(base_url=suite.url + "/v1", api_key="x", max_retries=0, timeout=60)
    check_log(suite.close())


def create(client, **kw):
    args = dict(model="calls", input="Once upon a time", max_output_tokens=200, temperature=1,
                extra_body={"seed": 3}, parallel_tool_calls=False)
    return client.responses.create(**{**args, **kw})


def test_a_required_call_fits_its_schema(client):
    r = create(client, tools=[LOOK], tool_choice="required")
    item = r.output[-1]
    assert r.status == "completed" and [i.type for i in r.output] == ["function_call"]
    assert item.name == "look" and item.call_id and item.id.startswith("fc_")
    assert json.loads(item.arguments)["city"] in ("Oslo", "Rome")


def test_a_stream_has_the_same_call(client):
    whole = create(client, tools=[LOOK], tool_choice="required").output[-1]
    seen = list(create(client, tools=[LOOK], tool_choice="required", stream=True))
    kinds = [e.type.removeprefix("response.") for e in seen]
    deltas = [e.delta for e in seen if e.type == "response.function_call_arguments.delta"]
    assert kinds[:3] == ["created", "in_progress", "output_item.added"]
    assert kinds[3:-3] == ["function_call_arguments.delta"] * len(deltas)
    assert kinds[-3:] == ["function_call_arguments.done", "output_item.done", "completed"]
    assert "".join(deltas) == seen[-3].arguments == whole.arguments
    assert seen[2].item.arguments == "" and seen[-2].item.call_id == seen[2].item.call_id


def test_a_call_of_a_namespace_has_its_own_name(client):
    r = create(client, tools=[SPACE], tool_choice={"type": "function", "name": "look",
                                                   "namespace": "sky"})
    item = r.output[-1]
    assert (item.type, item.name, item.namespace) == ("function_call", "look", "sky")


def test_the_input_of_a_custom_tool_follows_its_grammar(client):
    seen = list(create(client, tools=[PATCH, LOOK], stream=True,
                       tool_choice={"type": "custom", "name": "patch"}))
    item = seen[-1].response.output[-1]
    deltas = [e.delta for e in seen if e.type == "response.custom_tool_call_input.delta"]
    assert item.type == "custom_tool_call" and item.name == "patch"
    assert re.fullmatch(r"\*\*\* Begin\n[+-][ab]{1,4}\n\*\*\* End", item.input), item.input
    assert "".join(deltas) == item.input


def test_the_result_of_a_call_continues_the_response(client):
    first = create(client, tools=[LOOK, PATCH], tool_choice="required")
    call = first.output[-1]
    kind = "function_call_output" if call.type == "function_call" else "custom_tool_call_output"
    result = {"type": kind, "call_id": call.call_id, "output": "rain"}
    more = create(client, tools=[LOOK, PATCH], tool_choice="none", input=[result],
                  previous_response_id=first.id, max_output_tokens=4, temperature=0)
    call_item = call.model_dump(exclude_none=True)
    whole = create(client, tools=[LOOK, PATCH], tool_choice="none", max_output_tokens=4,
                   temperature=0, input=[{"role": "user", "content": "Once upon a time"},
                                         call_item, result])
    assert more.output_text == whole.output_text
    assert more.usage.input_tokens == whole.usage.input_tokens


def test_a_text_format_is_a_schema(client):
    r = create(client, extra_body={"seed": 3, "text": {"format": {
        "type": "json_schema", "name": "place", "strict": True, "schema": SCHEMA}}})
    assert json.loads(r.output_text)["city"] in ("Oslo", "Rome")
    r = create(client, max_output_tokens=400,
               extra_body={"seed": 3, "text": {"format": {"type": "json_object"}}})
    assert r.status == "incomplete" or isinstance(json.loads(r.output_text), dict)


def test_a_schema_that_cannot_be_is_refused(client):
    with pytest.raises(openai.BadRequestError) as e:
        create(client, extra_body={"text": {"format": {
            "type": "json_schema", "name": "x", "schema": {"type": "teleport"}}}})
    assert e.value.body["param"].startswith("text.format.schema")


@pytest.mark.parametrize("summary", [None, "auto"])
def test_reasoning_is_an_item(client, summary):
    body = {"seed": 3, "chat_template_kwargs": {"opening": "<think>"},
            "reasoning": {"summary": summary}}
    r = create(client, model="thinks", max_output_tokens=12, extra_body=body)
    item = r.output[0]
    parts = item.summary if summary else item.content
    assert item.type == "reasoning" and parts[0].text
    assert parts[0].type == ("summary_text" if summary else "reasoning_text")
    assert r.usage.output_tokens_details.reasoning_tokens > 0
    seen = list(create(client, model="thinks", max_output_tokens=12, extra_body=body, stream=True))
    name = "reasoning_summary_text" if summary else "reasoning_text"
    deltas = [e.delta for e in seen if e.type == "response.%s.delta" % name]
    assert "".join(deltas) == parts[0].text
    # A later prompt contains the reasoning of the model.
    more = create(client, model="thinks", input="And?", previous_response_id=r.id,
                  max_output_tokens=1)
    assert more.usage.input_tokens > r.usage.input_tokens
