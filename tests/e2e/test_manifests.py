# SPDX-License-Identifier: Apache-2.0
"""Tests how `sconce run`, `render`, `show` and `list` use the settings of manifests, and the built-in
chat templates."""
import json
import shutil
import subprocess
import urllib.request

import pytest

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]
# The forms that the makers of the templates published. "B" and "E" stand for the tokens that begin
# and end a text.
FORMS = {
    "alpaca": "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello\n\n"
              "### Instruction:\nBye\n\n### Response:\n",
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
              "<|im_start|>assistant\n",
    "gemma": "B<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
             "Hello<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
    "llama2": "B[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello EB[INST] Bye [/INST]",
    "llama3": "B<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "mistral": "B[INST] Be brief.\n\nHi [/INST] HelloE[INST] Bye [/INST]",
    "phi3": "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n"
            "<|user|>\nBye<|end|>\n<|assistant|>\n",
    "vicuna": "Be brief. USER: Hi ASSISTANT: HelloEUSER: Bye ASSISTANT:",
    "zephyr": "<|system|>\nBe brief.E\n<|user|>\nHiE\n<|assistant|>\nHelloE\n<|user|>\nByeE\n"
              "<|assistant|>\n",
}


@pytest.fixture
def models(home, guide):
    path = home / "data/sconce/models"
    path.mkdir(parents=True)
    shutil.copy(guide, path / "g.gguf")
    return path


@pytest.fixture
def render(sconce, models, home):
    (home / "m.json").write_text(json.dumps(MESSAGES))

    def run(*args):
        out = subprocess.run([sconce, "render", "--json", *args, str(home / "m.json")],
                             capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
        return json.loads(out.stdout)
    return run


def test_built_in_templates_have_the_published_forms(render, models):
    (models / "tokens.jinja").write_text("{{ [bos_token, eos_token] | tojson }}")
    bos, eos = json.loads(render("-m", "g", "--template", str(models / "tokens.jinja")))
    for name, form in FORMS.items():
        form = form.replace("Be brief.", "\0").replace("Bye", "\1")
        form = form.replace("USER", "\2").replace("B", bos).replace("E", eos).replace("\0", "Be brief.")
        assert render("-m", "g", "--template", name) == form.replace("\1", "Bye").replace("\2", "USER"), name


def test_the_template_of_a_manifest_is_used_and_an_option_replaces_it(render, models, sconce):
    (models / "v.yaml").write_text("path: g.gguf\ntemplate: vicuna\n")
    (models / "f.yaml").write_text("path: g.gguf\nname: filed\ntemplate: f.jinja\n")
    (models / "f.jinja").write_text("{{ messages | length }}!")
    assert "USER: Hi" in render("-m", "v")
    assert "### Instruction:" in render("-m", "v", "--template", "alpaca")
    assert render("-m", "filed") == "4!"
    out = subprocess.run([sconce, "run", "g", "Hi", "--template", "nix"], capture_output=True,
                         text=True)
    assert out.returncode == 1 and "the built-in ones are alpaca, chatml" in out.stderr


def test_run_uses_the_context_the_kv_type_and_the_stop_strings(sconce, models):
    (models / "m.yaml").write_text("path: g.gguf\ncontext: 64\nkv_type: q8_0\nstop: [' ']\n")
    out = subprocess.run([sconce, "run", "m", "word " * 100], capture_output=True, text=True)
    assert out.returncode == 1 and "64" in out.stderr
    out = subprocess.run([sconce, "run", "m", "-c", "512", "What is sconce?"], capture_output=True,
                         text=True)
    assert out.returncode == 0 and " " not in out.stdout.strip(), out.stdout


@pytest.mark.parametrize("text, place, why", [
    ("template: nix\n", "1:11", "neither a file nor a built-in chat template"),
    ("template: ../x.jinja\n", "1:1", '"template" must be the name of a built-in chat template'),
    ("context: 0\n", "1:1", '"context" must be a number of tokens'),
    ("kv_type: q3\n", "1:1", '"kv_type" must be auto, f32'),
    ("stop: [a, 7, {}]\n", "1:14", '"stop" must be a list of at most 16 texts'),
    ("keep_alive: soon\n", "1:1", '"keep_alive" must be a time'),
    ("pinned: maybe\n", "1:1", '"pinned" must be true or false'),
    ("adapters: legal\n", "1:1", '"adapters" must be a list'),
])
def test_a_mistake_is_named_with_its_place(sconce, models, text, place, why):
    (models / "m.yaml").write_text(text + "path: g.gguf\n")
    out = subprocess.run([sconce, "list", "--json"], capture_output=True, text=True, check=True)
    (error,) = [m["error"] for m in json.loads(out.stdout) if "error" in m]
    assert f"m.yaml:{place}: " in error and why in error


def test_serve_offers_only_one_model(sconce, models, home):
    (home / "hub/org").mkdir(parents=True)
    shutil.copy(models / "g.gguf", home / "hub/org/small.gguf")
    server = subprocess.Popen([sconce, "serve", "--port", "0", "--model", str(home / "hub/org/small.gguf")],
                              stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        while not lines or "Models:" not in lines[-1]:
            lines.append(server.stderr.readline())
            assert lines[-1], lines
        url = next(line.split()[-1] for line in lines if "http://" in line)
        assert lines[-1] == "Models: small\n"
        (listed,) = json.load(urllib.request.urlopen(url + "/models"))["data"]
        assert listed["id"] == "small" and listed["aliases"] == ["org/small"]
        for named in ({}, {"model": "org/small"}, {"model": "small"}):
            body = json.dumps({"prompt": "Once", "max_tokens": 2, **named}).encode()
            assert urllib.request.urlopen(url + "/completions", body).status == 200
    finally:
        server.terminate()
        server.wait(30)
    out = subprocess.run([sconce, "serve", "--model", "nix"], capture_output=True, text=True)
    assert out.returncode == 1 and 'there is no model "nix"' in out.stderr


@pytest.mark.parametrize("word, verb", [("chat", "run MODEL"), ("download", "pull SOURCE"),
                                        ("ls", "list"), ("unload", "stop MODEL"),
                                        ("search", "pull --suggest"), ("inspect", "show MODEL"),
                                        ("update", "pull SOURCE")])
def test_words_that_people_try_are_answered_with_the_verb(sconce, word, verb):
    out = subprocess.run([sconce, word], capture_output=True, text=True)
    assert out.returncode == 2 and f"`sconce {verb}` does this" in out.stderr
