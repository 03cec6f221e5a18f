#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much faster answers are with drafts that need no second model.

    drafts.py --build BUILD [--llama-server PATH] [--docs FILE] MODEL.gguf

The model should be a trained one, because a model with random weights repeats nothing. The first
tasks are transcripts of coding agents that edit files of this source tree: an agent has read a file
with a tool, and writes it again with a small change. Other tasks are to continue source code, to answer in JSON of a
schema, to call a tool, and to write prose with random choices, in which nearly nothing is repeated.

Each program runs once without drafts and once with each kind of drafts. All servers get the same
request, one after the other, and each round begins with another server. A figure is the median over
the rounds of the ratio of the speeds with and without drafts in the same round; the speeds are those
that the server reports for the generation. No server knows the answers of earlier rounds. The answers of sconce must be the same with and without drafts.
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import sys
import tempfile

from figures import Figures, median
from programs import LlamaServer, Suite

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
from gguf_template import set_chat_template  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ["none", "ngram", "suffix", "auto"]
PEER_KINDS = ["none", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache"]

TEMPLATE = (
    "{% if tools %}Tools: {{ tools | tojson }}\nA tool is called with <tool_call>\n"
    '{"name": ..., "arguments": {...}}\n</tool_call>\n{% endif %}'
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}")

# Files of the tree, how many lines of each the agent reads, and how it changes them.
EDITS = [("libinfer/sched/file-change.c", 48, "Rename sched to scheduler"),
         ("libinfer/draft/rates.c", 50, "Rename fade_count to count_fade"),
         ("tests/bench/need.py", 40, "Rename fail to give_up"),
         ("services/common/models/sampling.c", 60, "Rename AT to MEMBER")]
CODE = ["libinfer/sched/masks.c", "libinfer/draft/cost.c", "tests/bench/figures.py"]

SCHEMA = {
    "type": "object", "additionalProperties": False,
    "properties": {
        "forecast_location": {"type": "string", "maxLength": 16},
        "measurement_station": {"type": "string", "maxLength": 16},
        "temperature_celsius": {"type": "integer", "minimum": -50, "maximum": 50},
        "wind_speed_metres_per_second": {"type": "integer", "minimum": 0, "maximum": 90},
        "precipitation_probability_percent": {"type": "integer", "minimum": 0, "maximum": 100},
        "cloud_cover_description": {"enum": ["clear sky", "partly cloudy", "completely overcast"]},
        "warning_is_active": {"type": "boolean"}}}
SCHEMA["required"] = list(SCHEMA["properties"])

TOOL = {"type": "function", "function": {
    "name": "schedule_calendar_appointment",
    "description": "Puts an appointment into the calendar.",
    "parameters": {
        "type": "object", "additionalProperties": False,
        "properties": {
            "appointment_title": {"type": "string", "maxLength": 24},
            "duration_in_minutes": {"type": "integer", "minimum": 5, "maximum": 480},
            "notification_channel": {"enum": ["electronic_mail", "text_message", "push_message"]},
            "repeats_every_week": {"type": "boolean"},
            "participant_visibility": {"enum": ["visible_to_everybody", "visible_to_invited"]}}}}}
TOOL["function"]["parameters"]["required"] = list(TOOL["function"]["parameters"]["properties"])


def read_lines(name, n):
    return "".join((ROOT / name).read_text().splitlines(keepends=True)[:n])


def edit_prompt(name, n_lines, change, again):
    """Returns a transcript up to the text that the agent writes. @again: the agent has written the
    file once already, and writes it again with a second change."""
    text = read_lines(name, n_lines)
    first = text.splitlines(keepends=True)[0]
    old, new = change.removeprefix("Rename ").split(" to ")
    prompt = ("user: %s in %s.\n<call>read_file %s</call>\n<result>\n%s</result>\n"
              "<call>write_file %s\n" % (change, name, name, text, name))
    if again:
        prompt += ("%s</call>\n<result>written</result>\nuser: Undo this change.\n"
                   "<call>write_file %s\n" % (text.replace(old, new), name))
    return prompt + first


def make_tasks(n_tokens):
    """Returns {name: [(path, body)]}: the requests of each task."""
    def complete(prompt, **more):
        return "/completion", dict({"prompt": prompt, "n_predict": n_tokens, "temperature": 0,
                                    "ignore_eos": True}, **more)

    places = ["Reykjavik", "Nairobi", "Wellington"]
    return {
        "an agent writes a file that it has read": [
            complete(edit_prompt(*edit, again=False)) for edit in EDITS],
        "it writes the file a second time": [
            complete(edit_prompt(*edit, again=True)) for edit in EDITS],
        "source code goes on": [complete(read_lines(name, 70)) for name in CODE],
        "an answer in JSON of a schema": [
            complete("The weather of today in %s as JSON:\n" % place, json_schema=SCHEMA,
                     ignore_eos=False, n_predict=400) for place in places],
        "a call of a tool": [
            ("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Plan a lunch in %s." % place}],
                "tools": [TOOL], "tool_choice": "required", "temperature": 0, "max_tokens": 400,
                "timings_per_token": True}) for place in places],
        "prose with random choices": [
            complete(read_lines("docs/help.md", 40), temperature=1.2, top_k=0, top_p=1, min_p=0,
                     seed=seed) for seed in range(3)],
    }


class Sconce(Suite):
    def __init__(self, options, model, kind):
        super().__init__(options.build / "services/cli/sconce", model, options.threads,
                         context=4096, top=["speculative:", "  kind: %s" % kind])
        self.kind, self.program = kind, "sconce"


class Peer(LlamaServer):
    def __init__(self, options, model, kind):
        super().__init__(options.llama_server, model, options.threads, 1, 4096,
                         more=["-ub", 128, "--jinja"] +
                         (["--spec-type", kind] if kind != "none" else []))
        self.kind, self.program = kind, "llama.cpp"


def ask(server, path, body, turn):
    """Returns the answer as a text, and the tokens per second."""
    connection = http.client.HTTPConnection(*server.address, timeout=600)
    body = dict(body, model=server.model)
    if server.program == "sconce":  # answers of earlier rounds are not remembered
        body["cache_salt"] = "%d %d" % (turn, hash(json.dumps(body)))
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise RuntimeError("%s: %s" % (server.program, answer))
    timings = answer["timings"]
    message = answer["choices"][0]["message"] if "choices" in answer else {}
    text = answer["content"] if not message else json.dumps(
        [message.get("content")] + [c["function"] for c in message.get("tool_calls") or []])
    return text, timings["predicted_n"] / timings["predicted_ms"] * 1e3


def run_request(servers, path, body, turn, speeds):
    """Sends a request to all servers, and adds the speeds to {(program, kind): [speed]}."""
    texts = {}
    for i in range(len(servers)):
        server = servers[(i + turn) % len(servers)]
        text, speed = ask(server, path, body, turn)
        speeds.setdefault((server.program, server.kind), []).append(speed)
        if server.program == "sconce":
            texts[server.kind] = text
    if len(set(texts.values())) > 1:
        raise RuntimeError("the answers with and without drafts differ: %s" % texts)


def measure(figures, servers, options):
    rows = []
    for name, requests in make_tasks(options.tokens).items():
        if options.task not in name:
            continue
        requests = requests[:options.requests]
        figures.title(name)
        speeds = {}
        for server in servers:
            for path, body in requests:  # the prompts are read, and the costs of steps are learned
                ask(server, path, body, -1)
        for turn in range(options.rounds):
            for path, body in requests:
                run_request(servers, path, body, turn, speeds)
        for (program, kind), values in speeds.items():
            plain = speeds[program, "none"]
            ratio = median([a / b for a, b in zip(values, plain)])
            if kind == "none":
                figures.figure("%s without drafts" % program, median(values), "tok/s")
                continue
            least = None
            if program == "sconce":
                least = 0.97 if "random" in name else 1.3
            figures.figure("%s, %s" % (program, kind), ratio, "×", least=least)
            rows.append((name, program, kind, "%.1f" % median(plain), "%.2f ×" % ratio))
        figures.tell_machine()
    rows.sort(key=lambda row: (list(make_tasks(1)).index(row[0]), row[1] != "sconce"))
    figures.table("drafts", ("task", "program", "drafts", "tokens/s without drafts", "with drafts"),
                  rows)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--llama-server", type=pathlib.Path)
    p.add_argument("--docs", help="write the table into this file")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--tokens", type=int, default=160)
    p.add_argument("--requests", type=int, default=4, help="the largest number of requests of each task")
    p.add_argument("--task", default="", help="only tasks whose names have this text")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--kinds", default=",".join(KINDS[1:]))
    p.add_argument("--peer-kinds", default=",".join(PEER_KINDS[1:]))
    p.add_argument("model", type=pathlib.Path)
    options = p.parse_args()
    figures = Figures()
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = directory / "drafts.gguf"
        set_chat_template(options.model, model, TEMPLATE)
        servers = [stack.enter_context(Sconce(options, model, kind))
                   for kind in ["none"] + options.kinds.split(",")]
        if options.llama_server:
            servers += [stack.enter_context(Peer(options, model, kind))
                        for kind in ["none"] + options.peer_kinds.split(",")]
        measure(figures, servers, options)
    if options.docs:
        figures.write_docs(options.docs)
    return figures.n_short > 0


if __name__ == "__main__":
    sys.exit(main())
