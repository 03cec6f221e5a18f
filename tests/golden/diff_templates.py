#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders chat templates with many conversations, with jinja2 and with libinfer, and prints the
differences.

usage: RENDER_CLI=build/tests/unit/chat/render-cli diff_templates.py PATH…

PATH is a *.jinja file, a tokenizer_config.json with a chat_template, or a directory of them.
Needs the packages jinja2 and transformers.
"""
import itertools
import json
import os
import sys

from jinja_oracle import Ours, default_program, oracle

USER = {"role": "user", "content": "What is the weather in Zürich today? 🌦"}
SYSTEM = {"role": "system", "content": "You are terse.\nNever say \"no\"."}
ANSWER = {"role": "assistant", "content": "Sunny, 21 °C."}
THOUGHT = {"role": "assistant", "content": "<think>\nlet me see\n</think>\n\nSunny."}
REASON = {"role": "assistant", "reasoning_content": "I look outside.\n", "content": "Sunny.",
          "thinking": "I look outside.\n"}


def call(arguments, call_id="call_a1b2c", content="", **more):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"id": call_id, "type": "function",
         "function": {"name": "get_weather", "arguments": arguments}}], **more}


ARGS = {"city": "Zürich", "days": 3, "units": ["°C", "m/s"], "exact": True, "note": None, "f": 0.5}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call_a1b2c",
          "content": "{\"temp\": 21.5, \"sky\": \"clear\"}"}
RESULT9 = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001",
           "content": "rain & <b>wind</b>"}
TWO_CALLS = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Bern"}}},
    {"id": "call00002", "type": "function",
     "function": {"name": "add", "arguments": {"a": 1, "b": -2.25}}}]}
PARTS = {"role": "user", "content": [
    {"type": "text", "text": "Look: "}, {"type": "image"},
    {"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": " what is it?"}]}
TEXT_PARTS = {"role": "user", "content": [{"type": "text", "text": "Hello "},
                                          {"type": "text", "text": "there"}]}

CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, {"role": "user", "content": "And tomorrow?"}],
    "turns-closed": [USER, ANSWER, USER, ANSWER],
    "spaces": [{"role": "user", "content": "  padded \n\n"}, {"role": "assistant", "content": " x "},
               {"role": "user", "content": "\tagain\n"}],
    "think": [USER, THOUGHT, {"role": "user", "content": "Sure?"}],
    "think-last": [USER, THOUGHT],
    "reasoning": [USER, REASON, {"role": "user", "content": "Sure?"}],
    "reasoning-last": [SYSTEM, USER, REASON],
    "call-dict": [SYSTEM, USER, call(ARGS), RESULT],
    "call-string": [USER, call(json.dumps(ARGS)), RESULT, ANSWER],
    "call-none-content": [USER, call(ARGS, content=None), RESULT],
    "call-reasoning": [USER, call(ARGS, reasoning_content="need data", content="Wait."), RESULT],
    "call-9": [USER, call({"city": "Bern"}, "call00001"), RESULT9, ANSWER, USER],
    "call-two": [USER, TWO_CALLS, RESULT9,
                 {"role": "tool", "name": "add", "tool_call_id": "call00002", "content": "-1.25"}],
    "call-two-more": [SYSTEM, USER, TWO_CALLS, RESULT9,
                      {"role": "tool", "name": "add", "tool_call_id": "call00002", "content": "3"},
                      ANSWER, USER],
    "call-empty": [USER, call({}), RESULT],
    "parts": [PARTS],
    "parts-text": [SYSTEM, TEXT_PARTS, ANSWER],
    "developer": [{"role": "developer", "content": "Be kind."}, USER],
    "odd-roles": [USER, USER, ANSWER, ANSWER],
    "assistant-first": [ANSWER, USER],
    "unknown-role": [USER, {"role": "narrator", "content": "Meanwhile…"}],
    "empty": [],
    "empty-content": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    "unicode": [{"role": "user", "content": "naïve “quotes” 日本語 \u200b\U0001f468\u200d\U0001f469 \x07"},
                {"role": "assistant", "content": "a\\b 'c' \"d\" </s> {{ x }} {% if %}"}],
    "numbers": [{"role": "user", "content": 42}, {"role": "assistant", "content": 1.5}],
}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Current weather.\nSecond line with \"quotes\".",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "City, e.g. Zürich", "enum": ["Bern", "Zürich"]},
            "days": {"type": "integer", "default": 1, "minimum": 1},
            "units": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object", "properties": {"lat": {"type": "number"},
                                                       "lon": {"type": ["number", "null"]}}},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "required": ["city"]},
        "return": {"type": "string", "description": "A report"}}},
    {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time",
                                      "parameters": {"type": "object", "properties": {}}}},
]
OPTIONS = [
    {}, {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True},
    {"reasoning_effort": "high", "functions": "[]", "datetime": "now"}, {"documents": [{"title": "Alps", "text": "High."}]},
    {"preserve_thinking": True, "tool_choice": "auto", "builtin_tools": ["python", "browser"]},
]


def templates(path):
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            yield from templates(os.path.join(path, name))
    elif path.endswith(".jinja"):
        with open(path, encoding="utf-8") as f:
            yield os.path.basename(path), f.read()
    elif path.endswith(".json"):
        with open(path, encoding="utf-8") as f:
            found = json.load(f).get("chat_template")
        for t in found if isinstance(found, list) else [found] if found else []:
            text = t["template"] if isinstance(t, dict) else t
            yield os.path.basename(path), text


def cases():
    for (name, messages), tools, generate, (i, options) in itertools.product(
            CONVERSATIONS.items(), (None, TOOLS, []), (False, True), enumerate(OPTIONS)):
        yield "%s/%s/%s/%d" % (name, len(tools) if tools is not None else "-", "gen" if generate else "-", i), {
            "messages": messages, "tools": tools, "documents": None,
            "add_generation_prompt": generate, "bos_token": "<s>", "eos_token": "</s>", **options}


def main():
    ours = Ours(default_program())
    n_equal = n_errors = n_bad = n_templates = 0
    for path in sys.argv[1:]:
        for name, template in templates(path):
            n_templates += 1
            rendered = 0
            for case, variables in cases():
                want = oracle(template, variables)
                got, error = ours(template, variables)
                if want == got and error != "CRASHED":
                    n_equal += 1
                    n_errors += want is None
                    rendered += want is not None
                    continue
                n_bad += 1
                if n_bad <= 20:
                    print("DIFFERENT %s %s\n  want %r\n  got  %r %s" % (name, case, want, got, error))
            print("%-60s %5d rendered" % (name, rendered))
    print("%d templates, %d equal (of these %d errors in both), %d different" %
          (n_templates, n_equal, n_errors, n_bad))
    return n_bad != 0


if __name__ == "__main__":
    sys.exit(main())
