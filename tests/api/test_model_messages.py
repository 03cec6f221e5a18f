# SPDX-License-Identifier: Apache-2.0
"""Tests the system message and the other messages that a model has: POST /api/create makes them with Ollama's own
client, and all routes of conversations and `sconce run` apply them."""
import json
import re
import subprocess

import hub as hubs
import ollama
import pytest
import yaml

from conftest import BUILD
from store_service import ALL, WEIGHTS, Stores

pytestmark = pytest.mark.sanitize

SYSTEM = "Answer like a pirate.\nSay \"arr\" — {{ or }} # : 'é' \\ \x07."
SHOTS = [{"role": "user", "content": "Hello: \"you\"\n- there"}, {"role": "assistant", "content": "Arr!"}]
USER = {"role": "user", "content": "What is a socket?"}
SCONCE = BUILD / "services/cli/sconce"


@pytest.fixture(scope="module")
def chats(certificate, tmp_path_factory):
    """Provides services with the models base, pirate (with a system message) and shots (with both)."""
    hub = hubs.Hub(*certificate)
    stores = Stores(hub, certificate[0], chat=True)
    path = tmp_path_factory.mktemp("weights") / "w.gguf"
    path.write_bytes(WEIGHTS)
    client = ollama.Client(host=stores.url, headers={"Authorization": "Bearer " + ALL})
    client.create("base", files={"w.gguf": client.create_blob(path)})
    client.create("pirate", from_="base", system=SYSTEM)
    client.create("shots", from_="base", system=SYSTEM, messages=SHOTS)
    stores.client, stores.hub = client, hub
    yield stores
    stores.close()
    hub.close()


def manifest(stores, name):
    with open("%s/%s/manifest.yaml" % (stores.path, name)) as f:
        return yaml.safe_load(f)


def prompt(stores, model, messages):
    status, answer = stores.ask("POST", "/apply-template", {"model": model, "messages": messages}, ALL)
    assert status == 200, answer
    return answer["prompt"]


# --- creation ---

def test_the_manifest_has_the_messages(chats):
    assert manifest(chats, "pirate")["system"] == SYSTEM and "messages" not in manifest(chats, "pirate")
    shots = manifest(chats, "shots")
    assert shots["system"] == SYSTEM and shots["messages"] == SHOTS
    # A model that is made from this one has the same messages, unless the request gives others.
    chats.client.create("heir", from_="shots")
    assert manifest(chats, "heir")["messages"] == SHOTS and manifest(chats, "heir")["system"] == SYSTEM
    chats.client.create("heir", from_="shots", system="Be brief.", messages=SHOTS[:1])
    heir = manifest(chats, "heir")
    assert heir["system"] == "Be brief." and heir["messages"] == SHOTS[:1]
    # The first message may be the system's, as in a Modelfile.
    chats.client.create("heir", from_="base", messages=[{"role": "system", "content": "Be kind."}, *SHOTS])
    heir = manifest(chats, "heir")
    assert heir["system"] == "Be kind." and heir["messages"] == SHOTS
    # The longest texts are kept.
    text = "a%sb" % ("\u2028" * 21844)
    chats.client.create("heir", from_="base", system=text, messages=[{"role": "user", "content": text}])
    assert manifest(chats, "heir")["system"] == text and chats.client.show("heir").modelinfo
    assert prompt(chats, "heir", [USER]).count("\u2028") == 2 * 21844


def test_the_messages_are_shown(chats):
    status, shown = chats.ask("POST", "/api/show", {"model": "shots"}, ALL)
    assert status == 200 and shown["system"] == SYSTEM and shown["messages"] == SHOTS
    assert chats.client.show("shots").modelfile == 'FROM shots\nSYSTEM """%s"""\n' % SYSTEM
    status, shown = chats.ask("POST", "/api/show", {"model": "base"}, ALL)
    assert "system" not in shown and "messages" not in shown
    out = subprocess.run([SCONCE, "show", "--json", "--models", chats.path, "shots"], capture_output=True, text=True,
                         check=True)
    settings = json.loads(out.stdout)["settings"]
    assert settings["system"] == SYSTEM and settings["messages"] == SHOTS
    out = subprocess.run([SCONCE, "show", "--models", chats.path, "shots"], capture_output=True, text=True, check=True)
    assert "\x07" not in out.stdout and "Answer like a pirate.\\nSay" in out.stdout


def test_show_has_the_parameters_and_the_template_of_the_manifest(chats):
    chats.client.create("set", from_="base", template="alpaca", parameters={
        "temperature": 0.25, "repeat_penalty": 1.5, "stop": ["a\"b", "c"], "num_ctx": 512},
        license=["MIT\nCopyright", "more"])
    shown = chats.client.show("set")
    assert shown.license == "MIT"
    assert shown.parameters.splitlines() == ["num_ctx 512", "temperature 0.25", "repeat_penalty 1.5", 'stop "a\\"b"',
                                             'stop "c"']
    assert "### Instruction:" in shown.template


def test_the_stops_of_a_template_go_with_it(chats):
    def stops(name):
        out = subprocess.run([SCONCE, "show", "--json", "--models", chats.path, name], capture_output=True, text=True,
                             check=True)
        return json.loads(out.stdout)["settings"].get("stop")

    chats.client.create("t", from_="base", template="vicuna")
    assert stops("t") == ["USER:"]
    chats.client.create("u", from_="t")
    assert stops("u") == ["USER:"] and "stop" not in manifest(chats, "u")
    chats.client.create("u", from_="t", template="alpaca")
    assert stops("u") == ["### Instruction:"] and "stop" not in manifest(chats, "u")
    chats.client.create("u", from_="t", template="llama2")
    assert stops("u") is None
    # The model's own stops stay, as in Ollama, and so do those of a request.
    chats.client.create("t", from_="base", template="vicuna", parameters={"stop": ["END"]})
    chats.client.create("u", from_="t", template="alpaca")
    assert stops("u") == ["END"]
    chats.client.create("u", from_="t", template="alpaca", parameters={"stop": ["STOP"]})
    assert stops("u") == ["STOP"]
    # An earlier version wrote the stop of the template into the manifest.
    with open(chats.path + "/t/manifest.yaml", "w") as f:
        f.write("path: w.gguf\ntemplate: vicuna\nstop: ['USER:']\n")
    chats.client.create("u", from_="t", template="alpaca")
    assert stops("u") == ["### Instruction:"]


def test_a_model_keeps_fractions_of_a_second(chats):
    with open(chats.path + "/short.yaml", "w") as f:
        f.write("path: base/w.gguf\nkeep_alive: 500ms\n")
    chats.client.create("child", from_="short")
    out = subprocess.run([SCONCE, "show", "--json", "--models", chats.path, "child"], capture_output=True, text=True,
                         check=True)
    assert json.loads(out.stdout)["settings"]["keep_alive"] == 0.5


def test_a_short_time_is_not_no_time(chats):
    def is_loaded():
        return "base:latest" in [m.model for m in chats.client.ps().models]

    def ask(value):
        chats.client.generate("base", "Hi", options={"num_predict": 1}, keep_alive=value)
        return is_loaded()

    for value in (1.5, "1h30m", "-1", -1, "0.5m", "1500ms"):
        assert ask(value), value
    chats.wait(lambda: not is_loaded())
    for value in (0, "0", "0s", "-0"):
        ask(value)
        chats.wait(lambda: not is_loaded(), 1)
    for value in ("1.5", "5 m", "1d", "soon", ""):
        with pytest.raises(ollama.ResponseError) as e:
            ask(value)
        assert e.value.status_code == 400 and "'keep_alive'" in e.value.error


# --- conversations ---

def test_the_messages_come_before_those_of_a_request(chats):
    system = {"role": "system", "content": SYSTEM}
    mine = {"role": "system", "content": "Be brief."}
    assert prompt(chats, "pirate", [USER]) == prompt(chats, "base", [system, USER])
    assert prompt(chats, "shots", [USER]) == prompt(chats, "base", [system, *SHOTS, USER])
    # The system message of a request replaces that of the model, even if it is empty.
    assert prompt(chats, "pirate", [mine, USER]) == prompt(chats, "base", [mine, USER])
    assert prompt(chats, "shots", [mine, USER]) == prompt(chats, "base", [mine, *SHOTS, USER])
    empty = {"role": "system", "content": ""}
    assert prompt(chats, "pirate", [empty, USER]) == prompt(chats, "base", [empty, USER])
    # As in Ollama, only the first message counts.
    assert prompt(chats, "pirate", [USER, mine]) == prompt(chats, "base", [system, USER, mine])


ROUTES = {
    "/v1/chat/completions": (
        lambda system: {"messages": ([{"role": "system", "content": system}] if system else []) + [USER],
                        "max_tokens": 8, "temperature": 0},
        lambda a: (a["usage"]["prompt_tokens"], a["choices"][0]["message"]["content"])),
    "/v1/responses": (
        lambda system: {"input": USER["content"], "max_output_tokens": 8, "temperature": 0, "store": False,
                        **({"instructions": system} if system else {})},
        lambda a: (a["usage"]["input_tokens"], a["output"][0]["content"][0]["text"])),
    "/v1/messages": (
        lambda system: {"messages": [USER], "max_tokens": 8, "temperature": 0, **({"system": system} if system else {})},
        lambda a: (a["usage"]["input_tokens"] + a["usage"].get("cache_read_input_tokens", 0), a["content"][0]["text"])),
    "/v1/messages/count_tokens": (
        lambda system: {"messages": [USER], **({"system": system} if system else {})},
        lambda a: (a["input_tokens"], "")),
    "/api/chat": (
        lambda system: {"messages": ([{"role": "system", "content": system}] if system else []) + [USER],
                        "stream": False, "options": {"num_predict": 8, "temperature": 0}},
        lambda a: (a["prompt_eval_count"], a["message"]["content"])),
    "/api/generate": (
        lambda system: {"prompt": USER["content"], "stream": False, "options": {"num_predict": 8, "temperature": 0},
                        **({"system": system} if system else {})},
        lambda a: (a["prompt_eval_count"], a["response"])),
}


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_of_conversations_applies_the_system_message(chats, path):
    body, read = ROUTES[path]

    def answer(model, system=None):
        status, value = chats.ask("POST", path, {"model": model, **body(system)}, ALL)
        assert status == 200, value
        return read(value)

    with_system = answer("base", SYSTEM)
    assert answer("pirate") == with_system and answer("base")[0] < with_system[0]
    assert answer("pirate", "Be brief.") == answer("base", "Be brief.")
    assert answer("shots")[0] > with_system[0]


def test_ollamas_client_sees_the_same(chats):
    def read(answer):
        return answer.prompt_eval_count, answer.response if "response" in answer else answer.message.content

    options = {"temperature": 0, "num_predict": 8}
    base = read(chats.client.generate("base", "Hi", system=SYSTEM, options=options))
    assert read(chats.client.generate("pirate", "Hi", options=options)) == base
    assert read(chats.client.generate("pirate", "Hi", system="", options=options)) == base
    base = read(chats.client.chat("base", [{"role": "system", "content": SYSTEM}, *SHOTS, USER], options=options))
    assert read(chats.client.chat("shots", [USER], options=options)) == base


def test_a_context_leaves_the_first_messages_out(chats):
    """Ollama puts the system message before each prompt, and the other messages only before the first."""
    def count(model, **more):
        return chats.client.generate(model, "Hi", options={"num_predict": 1}, **more).prompt_eval_count

    assert count("shots", context=[5, 6, 7]) == count("pirate", context=[5, 6, 7])
    assert count("shots") > count("pirate") > count("base")


def test_raw_prompts_and_completions_have_no_messages(chats):
    def count(model):
        raw = chats.client.generate(model, "Hi", raw=True, options={"num_predict": 1}).prompt_eval_count
        status, answer = chats.ask("POST", "/v1/completions", {"model": model, "prompt": "Hi", "max_tokens": 1}, ALL)
        return raw, answer["usage"]["prompt_tokens"]

    assert count("shots") == count("base")


def test_a_model_is_known_at_once_after_its_name_was_missing(chats):
    for i in range(10):
        name = "fresh-%d" % i
        assert chats.ask("POST", "/apply-template", {"model": name, "messages": [USER]}, ALL)[0] == 404
        with open("%s/%s.yaml" % (chats.path, name), "w") as f:
            f.write("path: base/w.gguf\nsystem: Number %d.\n" % i)
        assert "Number %d." % i in prompt(chats, name, [USER])


def test_a_change_of_the_messages_is_used(chats):
    chats.client.create("new", from_="base", system="One.")
    before = prompt(chats, "new", [USER])
    chats.client.create("new", from_="base", system="Two.")
    # The services look for changes of models once in a second.
    chats.wait(lambda: prompt(chats, "new", [USER]) == before.replace("One.", "Two.") != before, 3)


def test_run_applies_the_messages(chats):
    def run(*args):
        out = subprocess.run([SCONCE, "run", "--models", chats.path, "--temperature", "0", "-n", "12", "-v", *args],
                             capture_output=True, text=True, check=True)
        return int(re.search(r"(\d+) tokens read", out.stderr).group(1)), out.stdout

    words = ["What is a socket?"]
    system = run("base", "--system", SYSTEM, *words)
    assert run("pirate", *words) == system and run("base", *words)[0] < system[0]
    assert run("pirate", "--system", "Be brief.", *words) == run("base", "--system", "Be brief.", *words)
    answer = chats.client.chat("shots", [USER], options={"temperature": 0, "num_predict": 12})
    shots = run("shots", *words)
    assert shots[0] == answer.prompt_eval_count > system[0]
    assert shots[1].strip() == answer.message.content.strip()


# --- manifests ---

@pytest.mark.parametrize("text, where", [
    ("system: []\n", "1:1"), ("system: ''\n", "1:1"), ("messages: {}\n", "1:1"), ("messages: [x]\n", "1:12"),
    ("messages: [{role: user}]\n", "1:12"), ("messages: [{role: tool, content: x}]\n", "1:12"),
    ("messages: [{role: user, content: x, more: y}]\n", "1:12"),
    ("messages: [{role: user, content: x, content: y}]\n", "1:12"),
    ("system: %s\n" % ("x" * 65537), "1:1"),
    ("messages: [{role: user, content: %s}, {role: user, content: %s}]\n" % ("x" * 40000, "x" * 40000), "1:40037"),
])
def test_a_bad_manifest_is_named_with_its_place(tmp_path, text, where):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w.gguf").write_bytes(WEIGHTS)
    (tmp_path / "m/manifest.yaml").write_text(text + "path: w.gguf\n")
    out = subprocess.run([SCONCE, "list", "--json", "--models", tmp_path], capture_output=True, text=True)
    assert "manifest.yaml:%s" % where in out.stdout + out.stderr and "must be a" in out.stdout + out.stderr


def test_all_manifests_together_have_a_limit(tmp_path):
    (tmp_path / "w.gguf").write_bytes(WEIGHTS)
    text = "path: w.gguf\nsystem: %s\nmessages: [{role: user, content: %s}]\n" % ("x" * 65536, "y" * 65536)
    for i in range(270):
        (tmp_path / ("m%03d.yaml" % i)).write_text(text)
    out = subprocess.run([SCONCE, "list", "--json", "--models", tmp_path], capture_output=True, text=True)
    models = json.loads(out.stdout)
    bad = [m for m in models if "error" in m]
    assert len(models) == 270 and 10 < len(bad) < 20
    assert all("all models together have more than 32 MiB" in m["error"] for m in bad)


# --- pulls ---

def test_a_pull_from_ollamas_registry_keeps_the_messages(chats):
    hub = chats.hub
    hub.put_ollama("talks", "latest", WEIGHTS, {"system": SYSTEM.encode(), "messages": json.dumps(SHOTS).encode()})
    status, lines = chats.ask("POST", "/api/pull", {"model": "talks", "stream": False}, ALL)
    assert status == 200 and lines == {"status": "success"}
    talks = manifest(chats, "talks")
    assert talks["system"] == SYSTEM and talks["messages"] == SHOTS
    assert prompt(chats, "talks", [USER]) == prompt(chats, "shots", [USER])
    listed = [{"role": "system", "content": "Be kind."}, *SHOTS]
    for name, more in (("lists", {}), ("both", {"system": b"Be brief."})):
        hub.put_ollama(name, "latest", WEIGHTS, {"messages": json.dumps(listed).encode(), **more})
        assert chats.ask("POST", "/api/pull", {"model": name, "stream": False}, ALL)[0] == 200
        assert manifest(chats, name)["messages"] == SHOTS
    assert manifest(chats, "lists")["system"] == "Be kind." and manifest(chats, "both")["system"] == "Be brief."
    hub.put_ollama("odd", "latest", WEIGHTS, {"messages": b'[{"role": "tool", "content": "x"}]'})
    status, answer = chats.ask("POST", "/api/pull", {"model": "odd", "stream": False}, ALL)
    assert status == 502 and "messages of the model" in answer["error"]
