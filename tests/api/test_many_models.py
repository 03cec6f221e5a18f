# SPDX-License-Identifier: Apache-2.0
"""Tests several models in the memory of the chat service: the budget, which models are unloaded for
others, pinned models, the routes and verbs that load and unload, and the settings of manifests."""
import http.client
import json
import pathlib
import random
import shutil
import socket
import subprocess
import threading
import time

import pytest

from conftest import BUILD, ROOT, SLOW, Suite, check_log

GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
SCONCE = BUILD / "services/cli/sconce"
NAMES = ["one", "two", "three"]
# A copy of the guide takes 79 MiB: its weights, four conversations, and 64 MiB for computing.
TWO = "  memory: 170MiB\n  context: 2048\n  max_models: 4\n"


@pytest.fixture
def many(tmp_path):
    """Returns a function that starts services with three models and a budget for two."""
    if not GUIDE.exists():
        pytest.skip("no bundled model")
    models, suites = tmp_path / "models", []
    models.mkdir()
    for name in NAMES:
        shutil.copy(GUIDE, models / f"{name}.gguf")

    def start(chat=TWO, **manifests):
        for name, text in manifests.items():
            (models / f"{name}.yaml").write_text(text)
        suites.append(Suite(models, chat=chat))
        suites[-1].models = models
        return suites[-1]

    yield start
    for suite in suites:
        check_log(suite.close())


def call(suite, path, body=None, unix=False):
    """Sends a POST, or a GET if there is no body. Over the unix socket, the request has the right
    to manage."""
    http_client = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
    if unix:
        http_client.sock = socket.socket(socket.AF_UNIX)
        http_client.sock.connect(suite.gateway_sock)
    http_client.request("POST" if body is not None else "GET", path,
                        json.dumps(body) if body is not None else None)
    answer = http_client.getresponse()
    text = answer.read()
    http_client.close()
    return answer.status, json.loads(text)


def complete(suite, model, n=4, **more):
    return call(suite, "/v1/completions", {"model": model, "prompt": "Once", "max_tokens": n,
                                           "temperature": 0, "ignore_eos": True, **more})


def loaded(suite):
    return {m["name"].removesuffix(":latest"): m for m in call(suite, "/api/ps")[1]["models"]}


def verb(suite, *args):
    return subprocess.run([SCONCE, *args, "--address", f"unix:{suite.gateway_sock}"],
                          capture_output=True, text=True, timeout=60 * SLOW)


def test_the_least_recently_used_model_makes_room(many):
    suite = many()
    for name in ["one", "two", "one", "three"]:
        assert complete(suite, name)[0] == 200
    models = loaded(suite)
    assert set(models) == {"one", "three"}
    assert sum(m["size"] for m in models.values()) <= 170 << 20


def test_a_model_that_does_not_fit_unloads_nothing(many):
    suite = many("  memory: 100MiB\n  context: 2048\n  max_models: 4\n",
                 large="path: one.gguf\nkv_type: f16\ncontext: 65536\n",
                 wrong="path: two.gguf\nkv_type: q8_0:f32\ncontext: 99999\n")
    (suite.models / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    assert complete(suite, "three")[0] == 200
    status, answer = complete(suite, "large")
    error = answer["error"]
    assert status == 507 and error["code"] == "model_too_large", answer
    assert "are missing" in error["message"] and "With a context of" in error["message"]
    assert complete(suite, "wrong")[0] == 507
    assert complete(suite, "bad")[0] == 400
    assert complete(suite, "three", kv_type="nix")[0] == 400
    assert set(loaded(suite)) == {"three"}


def test_pinned_models_stay_until_they_are_stopped(many):
    suite = many(pinned="path: one.gguf\npinned: true\n")
    for name in ["pinned", "two", "three"]:
        assert complete(suite, name)[0] == 200
    models = loaded(suite)
    assert set(models) == {"pinned", "three"} and models["pinned"]["pinned"]
    assert models["pinned"]["expires_at"].startswith("2318")
    # Ollama's way to unload a model does not unload a pinned model, and this client may not manage
    # models.
    assert call(suite, "/api/generate", {"model": "pinned", "keep_alive": 0})[0] == 200
    assert call(suite, "/v1/models/unload", {"model": "pinned"})[0] == 403
    assert "pinned" in loaded(suite)
    out = verb(suite, "stop", "pinned")
    assert out.returncode == 0 and out.stdout == "pinned is unloaded\n", out.stderr
    assert "pinned" not in loaded(suite)


def test_models_are_loaded_listed_and_unloaded_by_command(many):
    suite = many()
    assert call(suite, "/v1/models/load", {"model": "one", "keep_alive": "7m"}, unix=True) == (
        200, {"model": "one", "status": "loaded"})
    out = verb(suite, "ps", "--json")
    (model,) = json.loads(out.stdout)["models"]
    assert model["name"] == "one:latest" and model["requests"] == 0 and not model["pinned"]
    out = verb(suite, "ps")
    assert "one" in out.stdout and "cpu" in out.stdout and "6 min" in out.stdout, out.stdout
    for body, status in [({"model": "nix"}, 404), ({}, 400), ({"model": "one", "x": 1}, 400)]:
        assert call(suite, "/v1/models/load", body, unix=True)[0] == status
        assert call(suite, "/v1/models/unload", body, unix=True)[0] == status
    out = verb(suite, "stop", "--json", "one")
    assert json.loads(out.stdout) == {"models": [{"model": "one", "status": "unloaded"}]}
    assert verb(suite, "ps").stderr == "No model is in memory.\n"
    out = verb(suite, "stop", "nix")
    assert out.returncode == 1 and "nix" in out.stderr


@pytest.mark.parametrize("source", ["tests/golden/embed/bert-mean", "packaging/ears/sconce-ears"])
def test_models_of_other_services_are_loaded_by_command(many, source):
    suite = many()
    shutil.copytree(ROOT / source, suite.models / "other")
    assert call(suite, "/v1/models/load", {"model": "other"})[0] == 403
    assert call(suite, "/v1/models/load", {"model": "other", "keep_alive": "7m"}, unix=True) == (
        200, {"model": "other", "status": "loaded"})
    assert set(loaded(suite)) == {"other"}
    assert "6 min" in verb(suite, "ps").stdout
    assert call(suite, "/v1/models/load", {"model": "other", "keep_alive": "x"}, unix=True)[0] == 400
    out = verb(suite, "stop", "other")
    assert out.returncode == 0 and out.stdout == "other is unloaded\n", out.stderr
    assert loaded(suite) == {}
    assert call(suite, "/v1/models/unload", {"model": "other"}, unix=True) == (
        200, {"model": "other", "status": "unloaded"})


def test_a_model_is_not_unloaded_under_a_stream(many):
    suite = many()
    ends = []
    thread = threading.Thread(target=lambda: ends.append(complete(suite, "one", 1500)))
    thread.start()
    while not loaded(suite).get("one", {}).get("requests"):
        time.sleep(0.01)
    assert call(suite, "/v1/models/unload", {"model": "one"}, unix=True)[1]["status"] == "unloading"
    assert complete(suite, "two")[0] == 200
    assert complete(suite, "three")[0] == 200
    thread.join()
    assert ends[0][0] == 200 and ends[0][1]["usage"]["completion_tokens"] == 1500
    assert "one" not in loaded(suite)


def clients(suite, seconds):
    """Lets 8 clients stream from random models. Returns the failures and the number of requests."""
    failures, counts, end = [], [], time.monotonic() + seconds

    def client(seed):
        dice, n = random.Random(seed), 0
        while time.monotonic() < end:
            status, answer = complete(suite, dice.choice(NAMES), dice.choice([1, 8, 64]),
                                      prompt="Once " * dice.randrange(1, 60))
            if status != 200 or not answer["choices"][0]["text"]:
                failures.append((status, answer))
            n += 1
        counts.append(n)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    while any(t.is_alive() for t in threads):
        models = loaded(suite)
        assert sum(m["size"] for m in models.values()) <= 170 << 20
        time.sleep(0.2)
    return failures, sum(counts)


def check_clients(suite, seconds):
    failures, n = clients(suite, seconds)
    assert not failures, failures[:3]
    log = pathlib.Path(suite.log_path).read_text(errors="replace")
    assert log.count("unloading ") > 3 and n > 20
    return n


def test_three_models_serve_eight_clients_in_the_memory_of_two(many):
    check_clients(many(), 6 * SLOW)


@pytest.mark.full
def test_three_models_serve_eight_clients_for_ten_minutes(many):
    check_clients(many(), 600)


# --- manifests ---

def mapped(suite):
    """Returns which models' files the chat service has mapped."""
    with open("/proc/%d/maps" % suite.chat.wait_pid()) as f:
        text = f.read()
    return [name for name in NAMES if "/%s.gguf" % name in text]


def test_a_model_that_made_room_stays_open_while_the_budget_permits(many):
    suite = many("  max_models: 1\n  memory: 225MiB\n  context: 2048\n")
    answers = [complete(suite, name)[1]["choices"] for name in NAMES]
    # A spare (a model that made room and stays open) counts with its weights and 64 MiB, so that two
    # spares fit beside a loaded model, but not three.
    assert list(loaded(suite)) == ["three"] and mapped(suite) == NAMES
    assert complete(suite, "one")[1]["choices"] == answers[0] and list(loaded(suite)) == ["one"]
    assert call(suite, "/v1/models/unload", {"model": "three"}, unix=True)[0] == 200
    assert mapped(suite) == ["one", "two"]
    # A file that changed is opened again.
    (suite.models / "two.gguf").write_bytes((suite.models / "two.gguf").read_bytes())
    assert complete(suite, "two")[1]["choices"] == answers[1]
    assert "unusable" not in pathlib.Path(suite.log_path).read_text()


def test_a_model_that_made_room_is_closed_if_the_budget_is_for_one(many):
    suite = many("  max_models: 1\n  memory: 100MiB\n  context: 2048\n")
    for name in NAMES:
        assert complete(suite, name)[0] == 200
        assert mapped(suite) == [name]


def test_settings_of_a_manifest_are_used(many):
    suite = many(mine="path: one.gguf\ncontext: 512\nkv_type: q8_0\nstop: [e]\nkeep_alive: 7min\n"
                      "adapters: [legal]\n")
    assert call(suite, "/v1/models/load", {"model": "mine"}, unix=True)[0] == 200
    assert call(suite, "/v1/models/mine")[1]["meta"]["n_ctx"] == 512
    expires = time.strptime(loaded(suite)["mine"]["expires_at"][:19], "%Y-%m-%dT%H:%M:%S")
    assert 300 < time.mktime(expires) - time.mktime(time.gmtime()) <= 420
    answer = complete(suite, "mine", 200)[1]["choices"][0]
    assert answer["finish_reason"] == "stop" and "e" not in answer["text"]
    # A change of the manifest is used at the next request.
    (suite.models / "mine.yaml").write_text("path: one.gguf\ncontext: 1024\n")
    time.sleep(1.1)
    assert complete(suite, "mine")[0] == 200
    assert call(suite, "/v1/models/mine")[1]["meta"]["n_ctx"] == 1024


def test_a_template_of_a_manifest_replaces_that_of_the_model(many):
    suite = many(named="path: one.gguf\ntemplate: alpaca\n", filed="path: two.gguf\ntemplate: t.jinja\n")
    (suite.models / "t.jinja").write_text("{{ messages[0].content }}!")
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    prompt = call(suite, "/apply-template", {"model": "named", **body})[1]["prompt"]
    assert prompt.endswith("### Instruction:\nHi\n\n### Response:\n")
    assert call(suite, "/apply-template", {"model": "filed", **body})[1]["prompt"] == "Hi!"


def test_adapters_are_not_used_and_drafters_only_if_the_kind_says_so(many):
    suite = many(mine="path: one.gguf\nadapters: [legal]\ndrafter: two\n")
    status, answer = complete(suite, "mine:legal")
    assert status == 400 and "applies no adapters" in answer["error"]["message"]
    assert complete(suite, "mine:other")[0] == 404
    assert complete(suite, "mine")[0] == 200
    log = pathlib.Path(suite.log_path).read_text()
    assert "without drafts of two: speculative.kind is none" in log
