# SPDX-License-Identifier: Apache-2.0
"""Tests the command line, as people and programs use it."""

import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import TREE


def run(*args, **kw):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, **kw)


@pytest.fixture
def installed(home, guide):
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store / "sconce-guide.gguf")
    return home


def test_help_names_every_verb_and_each_verb_has_its_own(sconce):
    out = run(sconce, "--help")
    assert out.returncode == 0
    for verb in ("run", "list", "info", "serve", "status", "setup", "doctor", "policy", "tokenize",
                 "render", "bench", "ppl", "convert", "imatrix"):
        assert f"  {verb} " in out.stdout
        own = run(sconce, verb, "--help")
        assert own.returncode == 0 and f"sconce {verb}" in own.stdout
    assert run(sconce, "--version").stdout.startswith("sconce ")
    assert run(sconce).returncode == 2
    assert run(sconce, "fly").returncode == 2


def test_list_is_empty_at_first_and_says_where_models_go(sconce, home):
    out = run(sconce, "list", "--config", "/dev/null", "--models", str(home))
    assert out.returncode in (0, 1)
    out = run(sconce, "list")
    assert out.returncode == 0
    if not out.stdout:
        assert str(home / "data/sconce/models") in out.stderr


def test_list_and_info_tell_the_model(sconce, installed):
    models = json.loads(run(sconce, "list", "--json").stdout)
    assert "sconce-guide" in [m["name"] for m in models]
    assert "sconce-guide" in run(sconce, "list").stdout
    info = json.loads(run(sconce, "info", "sconce-guide", "--json", "--meta").stdout)
    assert info["architecture"] in ("llama", "qwen3") and info["format"] == "gguf"
    assert info["chat_template"] is True and info["layers"] > 0
    assert info["metadata"]["general.architecture"] == info["architecture"]
    memory = info["memory"]
    assert memory["texts"]["32768"] == 32768 * memory["bytes_per_token"] > 0
    text = run(sconce, "info", "sconce-guide").stdout
    assert "architecture" in text and "text memory" in text
    types = info["types"]
    assert [t["type"] for t in types] == ["Q8_0", "F32"] and sum(t["bytes"] for t in types) == info["bytes"]
    assert sum(t["elements"] for t in types) == info["parameters"] and "tensors of Q8_0" in text
    small = json.loads(run(sconce, "info", "sconce-guide", "--json", "-c", "100", "--kv-type", "q8_0").stdout)["memory"]
    assert small["kv_type"] == "q8_0" and small["bytes_per_token"] * 32 * 2 == memory["bytes_per_token"] * 34
    assert small["texts"] == {"100": 100 * small["bytes_per_token"]}
    assert small["with_weights"]["100"] == info["bytes"] + small["texts"]["100"]
    kinds = json.loads(run(sconce, "info", "sconce-guide", "--json", "-c", "100000").stdout)["kv_types"]
    rows = {t["type"]: t for t in kinds["types"]}
    assert kinds["tokens"] == 100000 and kinds["auto"] == "f16" and not rows["q3_0"]["possible"]
    assert rows["fp8"]["dominated_by"] == "q8_0" and not rows["fp8"]["automatic"]
    assert rows["q8_0"]["automatic"] and rows["q8_0"]["bytes"] == 100000 * small["bytes_per_token"]
    table = run(sconce, "info", "sconce-guide", "--kv-types").stdout
    assert "auto means f16 here" in table and "dominated by q8_0" in table and "not possible" in table
    assert run(sconce, "info", "sconce-guide", "-c", "x").returncode == 2
    assert "unknown type" in run(sconce, "info", "sconce-guide", "--kv-type", "q9").stderr


def test_info_says_what_is_wrong_and_where(sconce, installed, tmp_path):
    whole = (TREE / "packaging/guide/sconce-guide.gguf").read_bytes()
    for i, (data, said, offset) in enumerate((
            (b"hello", 'does not start with "GGUF"', 0), (whole[:100], "metadata pairs do not fit", 16),
            (b"GGUF" + b"\0\0\0\3" + whole[8:], "big-endian GGUF files are not supported", 4),
            (whole[:60] + b"\xff" * 4 + whole[64:], "are left in the file", 56),
            (whole[:-100], "lie outside the file of", None))):
        path = tmp_path / f"{i}.gguf"
        path.write_bytes(data)
        out = run(sconce, "info", str(path), "--json")
        error = json.loads(out.stdout)["error"]
        assert out.returncode == 1 and said in error["message"] and error["message"] in out.stderr
        assert error["code"] == "EBADMSG" or "big-endian" in said
        assert f"(at byte {error['offset']} of the file)" in out.stderr
        assert offset is None or error["offset"] == offset


def test_list_tells_the_task_and_what_does_not_run(sconce, installed):
    store = installed / "data/sconce/models"
    for name, source in (("vectors", "embed/bert-mean"), ("speech", "audio/whisper")):
        shutil.copytree(TREE / "tests/golden" / source, store / name)
    shutil.copytree(store / "vectors", store / "strange")
    config = json.loads((store / "strange/config.json").read_text())
    (store / "strange/config.json").write_text(json.dumps(
        {**config, "model_type": "strange", "architectures": ["StrangeForCausalLM"]}))
    rows = {m["name"]: m for m in json.loads(run(sconce, "list", "--json").stdout)}
    assert {name: (m["task"], m["runs"]) for name, m in rows.items() if name in
            ("sconce-guide", "vectors", "speech", "strange")} == {
        "sconce-guide": ("chat", True), "vectors": ("embedding", True),
        "speech": ("speech", True), "strange": ("embedding", False)}
    assert rows["vectors"]["why"] is None and "strange" in rows["strange"]["why"].lower()
    out = run(sconce, "list")
    assert out.returncode == 0 and "strange does not run here: " in out.stderr
    lines = {line.split()[0]: line.split()[1:3] for line in out.stdout.splitlines()}
    assert lines["speech"] == ["speech", "yes"] and lines["strange"] == ["embedding", "no"]


def devices(sconce):
    return json.loads(run(sconce, "info", "--devices", "--json").stdout)


def test_devices_are_listed(sconce, home):
    told = devices(sconce)
    cpu = told["devices"][0]
    assert cpu["name"] == "cpu" and cpu["memory_total"] > 0 and cpu["api"] is None
    assert told["auto"] in [d["name"] for d in told["devices"]]
    assert (told["no_vulkan"] is None) == (len(told["devices"]) > 1)
    assert [d["name"] for d in told["devices"][1:]] == \
        ["vulkan:%d" % i for i in range(len(told["devices"]) - 1)]
    text = run(sconce, "info", "--devices").stdout
    assert text.startswith("cpu ") and "auto is %s." % told["auto"] in text
    assert run(sconce, "info", "--devices", "sconce-guide").returncode == 2


def test_a_device_is_chosen_by_name(sconce, installed):
    out = run(sconce, "bench", "-m", "sconce-guide", "-p", "8", "-n", "4", "-r", "1", "--device",
              "cpu", "--json")
    assert json.loads(out.stdout)["device"] == "cpu"
    for verb in (("run", "sconce-guide", "hello"), ("bench", "sconce-guide"), ("serve",)):
        out = run(sconce, *verb, "--device", "abacus")
        assert out.returncode == 2 and "there are auto, cpu, vulkan" in out.stderr
        out = run(sconce, *verb, "--device", "vulkan:99")
        assert out.returncode == 1 and "there is cpu" in out.stderr


def test_vulkan_writes_what_the_cpu_writes(sconce, installed):
    if not [d for d in devices(sconce)["devices"][1:] if not d["unusable"]]:
        pytest.skip("no Vulkan device")
    args = ("run", "--temperature", "0", "-n", "24", "sconce-guide", "How do I add a model?")
    cpu = run(sconce, *args, "--device", "cpu")
    vulkan = run(sconce, *args, "--device", "vulkan", "-v")
    assert vulkan.returncode == 0 and vulkan.stdout == cpu.stdout
    assert "[vulkan:0 (" in vulkan.stderr
    out = run(sconce, "bench", "-m", "sconce-guide", "-p", "8", "-n", "4", "-r", "1", "--device",
              "vulkan")
    assert "vulkan:0 (" in out.stdout


def test_an_unknown_model_is_named_with_those_that_are_there(sconce, installed):
    out = run(sconce, "run", "gpt-9", "hello")
    assert out.returncode == 1
    assert 'no model "gpt-9"' in out.stderr and "sconce-guide" in out.stderr


def test_run_answers_a_prompt_and_a_pipe(sconce, installed):
    args = ("run", "--temperature", "0", "-n", "60", "sconce-guide")
    one = run(sconce, *args, "How do I install sconce?")
    assert one.returncode == 0 and len(one.stdout.split()) > 3
    pipe = run(sconce, *args, input="How do I install sconce?")
    assert pipe.stdout == one.stdout
    spoken = run(sconce, *args, "-v", "How do I install sconce?")
    assert "tokens/s" in spoken.stderr


def test_conversations_are_saved_and_resumed(sconce, installed, home):
    args = ("--temperature", "0", "-n", "24")
    whole = run(sconce, "run", *args, "--session", "talk-1", "sconce-guide", "What is sconce?")
    assert whole.returncode == 0
    path = home / "state/sconce/sessions/talk-1.json"
    assert path.stat().st_mode & 0o777 == 0o600
    saved = json.loads(path.read_text())
    assert [m["role"] for m in saved["messages"]] == ["user", "assistant"]
    assert saved["messages"][1]["content"] == whole.stdout.rstrip("\n")
    again = run(sconce, "run", "--session", "talk-1", "sconce-guide", "x")
    assert again.returncode == 1 and "--resume talk-1" in again.stderr

    first = run(sconce, "run", "--resume", "talk-1", "How do I install it?")
    assert first.returncode == 0 and first.stdout
    # The same question after the same history has the same answer: the session keeps its options.
    path.write_text(json.dumps(saved))
    path.with_name("talk-2.json").write_text(json.dumps(dict(saved, messages=[])))
    os.utime(path.with_name("talk-2.json"), (1, 1))
    assert run(sconce, "run", "--resume", input="How do I install it?").stdout == first.stdout
    rows = json.loads(run(sconce, "run", "--sessions", "--json").stdout)
    assert [(r["name"], r["messages"]) for r in rows] == [("talk-1", 4), ("talk-2", 0)]
    assert "talk-1" in run(sconce, "run", "--sessions").stdout


def test_conversations_that_cannot_go_on_say_why(sconce, installed, home):
    said = run(sconce, "run", "--resume")
    assert said.returncode == 1 and "no conversation was saved" in said.stderr
    said = run(sconce, "run", "--resume", "nowhere", "x")
    assert said.returncode == 1 and "--sessions" in said.stderr
    for name in ("../x", ".x", "", "a b", "x" * 65):
        assert run(sconce, "run", "--session", name, "sconce-guide", "x").returncode == 2
        assert run(sconce, "run", "--resume", name, "x").returncode == 2
    assert run(sconce, "run", "--raw", "--session", "a", "sconce-guide", "x").returncode == 2
    run(sconce, "run", "-n", "1", "--session", "a", "sconce-guide", "x")
    path = home / "state/sconce/sessions/a.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(dict(saved, weights=dict(saved["weights"], bytes=1))))
    said = run(sconce, "run", "--resume", "a", "x")
    assert said.returncode == 1 and "not the one" in said.stderr
    for bad in ("", "[]", "{", json.dumps(dict(saved, version=2)), json.dumps(dict(saved, messages=[1])),
                json.dumps(dict(saved, options={})), json.dumps({**saved, "model": None})):
        path.write_text(bad)
        said = run(sconce, "run", "--resume", "a", "x")
        assert said.returncode == 1 and "not a conversation" in said.stderr, bad


def test_seeds_repeat_and_numbers_are_checked(sconce, installed):
    args = ("run", "--temperature", "1.5", "--seed", "7", "-n", "30", "sconce-guide", "What is sconce?")
    assert run(sconce, *args).stdout == run(sconce, *args).stdout
    bad = run(sconce, "run", "--temperature", "hot", "sconce-guide", "x")
    assert bad.returncode == 2 and "temperature" in bad.stderr


def test_tokenize_counts_and_goes_back(sconce, installed):
    text = "Hello, wörld 👋"
    ids = json.loads(run(sconce, "tokenize", "-m", "sconce-guide", "--json", text).stdout)
    assert ids and all(isinstance(i, int) for i in ids)
    plain = run(sconce, "tokenize", "-m", "sconce-guide", text).stdout.split()
    assert [int(i) for i in plain] == ids
    stdin = run(sconce, "tokenize", "-m", "sconce-guide", "--json", "-", input=text).stdout
    assert json.loads(stdin) == ids
    path = pathlib.Path(installed) / "text"
    path.write_text(text)
    assert json.loads(run(sconce, "tokenize", "-m", "sconce-guide", "--json", "-f", str(path)).stdout) == ids
    back = run(sconce, "tokenize", "-m", "sconce-guide", "--decode", *map(str, ids)).stdout
    assert text in back


@pytest.mark.parametrize("words,named", [
    (("tokenize", "-m", "sconce-guide", "--json", "--pieces", "a"), "--pieces"),
    (("tokenize", "-m", "sconce-guide", "--decode"), "--decode"),
    (("tokenize", "-m", "sconce-guide", "--decode", "--json", "1"), "--json"),
    (("info", "sconce-guide", "--json", "--template"), "--template"),
    (("transcribe", "--seconds", "3", "sound.wav"), "--seconds")])
def test_options_that_would_be_ignored_are_refused(sconce, installed, words, named):
    out = run(sconce, *words)
    assert out.returncode == 2 and out.stdout == "" and named in out.stderr, out


def test_render_makes_the_prompt(sconce, installed):
    path = installed / "messages.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hi <there>"}]))
    out = run(sconce, "render", "-m", "sconce-guide", str(path))
    assert out.returncode == 0 and "Hi <there>" in out.stdout
    closed = run(sconce, "render", "-m", "sconce-guide", "--no-generation-prompt", str(path))
    assert out.stdout.startswith(closed.stdout) and len(out.stdout) > len(closed.stdout)
    (installed / "t.jinja").write_text("{{ messages[0].content|upper }}{{ x }}")
    own = run(sconce, "render", "-m", str(installed / "t.jinja"), "--set", "x=[1, 2]", str(path))
    assert own.stdout == "HI <THERE>[1, 2]"
    (installed / "bad.json").write_text("[{]")
    bad = run(sconce, "render", "-m", "sconce-guide", str(installed / "bad.json"))
    assert bad.returncode == 1 and "bad.json:1:" in bad.stderr


def test_render_takes_options_before_the_body(sconce, installed):
    (installed / "t.jinja").write_text("{{ tools[0].name }} {{ add_generation_prompt }}")
    (installed / "tools.json").write_text('[{"name": "option"}]')
    body = {"messages": [], "tools": [{"name": "body"}]}
    for extra in ({}, {"chat_template_kwargs": {"tools": [{"name": "variable"}]}},
                  {"chat_template_kwargs": {"add_generation_prompt": True}}):
        (installed / "body.json").write_text(json.dumps({**body, **extra}))
        out = run(sconce, "render", "-m", str(installed / "t.jinja"), "--no-generation-prompt",
                  "--tools", str(installed / "tools.json"), str(installed / "body.json"))
        assert out.stdout == "option False", (extra, out)
    (installed / "body.json").write_text(json.dumps(body))
    out = run(sconce, "render", "-m", str(installed / "t.jinja"), str(installed / "body.json"))
    assert out.stdout == "body True"


def test_render_refuses_variables_that_are_not_json(sconce, installed):
    (installed / "t.jinja").write_text("{{ x }}{{ y }}")
    args = ("render", "-m", str(installed / "t.jinja"))
    out = run(sconce, *args, "--set", 'x="a=b"', "--set", "y=null", "-", input="[]")
    assert (out.returncode, out.stdout) == (0, "a=bNone"), out
    for bad in ("x", "=1", "x=", "x=False", "x=text", "x=[1", "x=1 2"):
        out = run(sconce, *args, "--set", bad, "-", input="[]")
        assert out.returncode == 2 and f"--set {bad}: " in out.stderr, (bad, out)


def test_bench_prints_json(sconce, installed):
    out = run(sconce, "bench", "-m", "sconce-guide", "-p", "64", "-n", "16", "-t", "1", "-r", "1", "--json")
    r = json.loads(out.stdout)
    assert r["pp"]["tokens"] == 64 and r["tg"]["tokens"] == 16
    assert r["pp"]["tok_s"] > 0 and r["tg"]["tok_s"] > 0
    assert r["threads"] == 1 and r["model"] == "sconce-guide" and r["bytes"] > 0
    assert "membw" not in r and "peak" not in r and "depth" not in r


def test_bench_measures_the_machine(sconce, installed):
    r = json.loads(run(sconce, "bench", "--membw", "--peak", "-t", "1", "-r", "1", "--json").stdout)
    assert "model" not in r and r["threads"] == 1
    assert 1e8 < r["membw"]["bytes_s"] < 1e13 and r["membw"]["how"]
    assert r["peak"]["how"] is None or 1e9 < r["peak"]["ops_s"] < 1e15
    out = run(sconce, "bench", "-m", "sconce-guide", "-p", "32", "-n", "8", "-d", "64", "-t", "1",
              "-r", "2", "--membw", "--peak")
    for text in ("before it    64", "of the bandwidth bound", "GB/s"):
        assert text in out.stdout, out.stdout
    assert run(sconce, "bench").returncode == 2
    assert run(sconce, "bench", "-m", "sconce-guide", "-p", "0", "-n", "0").returncode == 1


def test_bench_compares_kv_formats(sconce, installed, tmp_path):
    text = tmp_path / "text"
    text.write_text("sconce runs models on your own machine. Which models are there?\n" * 60)
    args = ("bench", "-m", "sconce-guide", "--kv-table", "--text", str(text), "-p", "64", "-d", "192", "-n", "4",
            "-r", "1", "-t", "1", "--device", "cpu")
    result = json.loads(run(sconce, *args, "--kv-type", "f32,q8_0,q4_0,q3_0", "--json").stdout)
    assert result["depth"] == 192 and result["prompt"] == 64 and result["rounds"] == 1
    rows = {row["type"]: row for row in result["types"]}
    assert list(rows) == ["f16", "f32", "q8_0", "q4_0", "q3_0"]
    possible = [row for row in rows.values() if "refusal" not in row]
    assert [row["bits"] for row in possible][:3] == [16, 32, 8.5]
    for row in possible:
        assert 0 < row["needle"] <= 1 and row["ppl"] > 1 and row["pp_ratio"] > 0 and row["tg_ratio"] > 0
    assert rows["f32"]["kld"]["value"] == 0 and rows["f32"]["same_top"]["value"] == 1
    assert 0 < rows["q8_0"]["kld"]["value"] < rows["q4_0"]["kld"]["value"]
    for row in possible:
        by = rows.get(row["dominated_by"])
        assert by is None or (by["bits"] <= row["bits"] and by["kld"]["value"] <= row["kld"]["value"])
    shown = run(sconce, *args, "--kv-type", "q8_0").stdout
    assert "needle" in shown and "q8_0" in shown and "f16" in shown
    for words, message in (
        ((), "--kv-table needs one MODEL and --text FILE"),
        (("--text", str(text), "--membw"), "leave out the other options"),
        (("--text", str(text), "--accept", "0.5"), "leave out the other options"),
        (("--text", str(text), "-n", "0"), "-n of at least 1"),
        (("--text", str(text), "--kv-type", "q8_0,"), "a name is empty"),
        (("--text", str(text), "--kv-type", "q9"), "q9"),
        (("--text", str(text), "-p", "8"), "too small for the sentence"),
    ):
        out = run(sconce, "bench", "-m", "sconce-guide", "--kv-table", "--device", "cpu", *words)
        assert out.returncode != 0 and message in out.stderr, (words, out.stderr)
    out = run(sconce, "bench", "-m", "sconce-guide", "--chunks", "2")
    assert out.returncode == 2 and "--chunks needs --kv-table" in out.stderr


def test_ppl_measures_a_text(sconce, installed, tmp_path):
    text = tmp_path / "text"
    text.write_text("sconce runs models on your own machine. <|im_end|> Which models are there?\n" * 40)
    args = ("-c", "64", "-t", "1", "--device", "cpu")
    out = run(sconce, "ppl", *args, "sconce-guide", str(text))
    lines = out.stdout.split("\n")
    r = json.loads(run(sconce, "ppl", "-m", "sconce-guide", *args, "-", "--json", input=text.read_text()).stdout)
    n = r["chunks"]
    assert n > 4 and r["tokens"] == n * 31 and r["context"] == 64 and r["model"] == "sconce-guide"
    assert abs(math.exp(r["nll"]) / r["ppl"] - 1) < 1e-6 and 1 < r["ppl"] and 0 < r["error"] < r["ppl"]
    assert r["seconds"] > 0 and r["tok_s"] > 0
    assert [line.split()[0] for line in lines[:n]] == [f"[{i}/{n}]" for i in range(1, n + 1)]
    assert lines[n:] == [f"Final estimate: PPL = {r['ppl']:.4f} ± {r['error']:.4f}", ""]
    out = run(sconce, "ppl", *args, "--chunks", "2", "-b", "5", "sconce-guide", str(text))
    assert out.stdout.split("\n")[:2] == [line.replace(f"/{n}]", "/2]") for line in lines[:2]]


def test_ppl_compares_with_a_base_model(sconce, installed, tmp_path):
    text = tmp_path / "text"
    text.write_text("sconce runs models on your own machine. Which models are there?\n" * 40)
    args = ("ppl", "-c", "64", "-t", "1", "--device", "cpu", "sconce-guide", str(text))
    plain = json.loads(run(sconce, *args, "--json").stdout)
    same = json.loads(run(sconce, *args, "--json", "--base", "sconce-guide").stdout)
    assert same["ppl"] == plain["ppl"] and same["base"]["kld"] == {"value": 0, "error": 0}
    assert same["base"]["ratio"]["value"] == 1 and same["base"]["same_top"]["value"] == 1
    other = json.loads(run(sconce, *args, "--json", "--kv-type", "q4_0", "--base-kv-type", "f32").stdout)
    base = other["base"]
    assert base["model"] == "sconce-guide" and 0 < base["kld"]["value"] < 1 and base["same_top"]["value"] > 0.5
    assert abs(other["ppl"] / base["ppl"]["value"] / base["ratio"]["value"] - 1) < 1e-9
    values = list(base["kld_quantiles"].values())
    assert len(values) == 13 and values[0] >= -1e-6
    assert all(a <= b + 1e-12 for a, b in zip(values, values[1:]))
    shown = run(sconce, *args, "--kv-type", "q4_0", "--base-kv-type", "f32").stdout
    assert "Mean divergence (KLD) in nats" in shown and "Same most probable token" in shown


def test_ppl_says_what_is_wrong(sconce, installed, tmp_path):
    short = tmp_path / "short"
    short.write_text("hello")
    bert = str(TREE / "tests/golden/embed/bert-mean")
    tiny = str(TREE / "tests/golden/models/qwen2-tied")
    for words, status, said in (
            ([], 2, "MODEL and FILE are missing"), (["sconce-guide"], 2, "FILE is missing"),
            (["-m", "sconce-guide", "a", "b"], 2, "more than one FILE"),
            (["-c", "0", "sconce-guide", str(short)], 2, "-c, --context must be a whole number"),
            (["-c", "9" * 6, "sconce-guide", str(short)], 1, "the model has a context of"),
            (["-c", "64", "sconce-guide", str(short)], 1, "tokens, but one chunk needs 64"),
            (["sconce-guide", str(tmp_path / "none")], 1, str(tmp_path / "none")),
            ([bert, str(short)], 1, "is not a model of text"),
            (["-c", "4", "--base", tiny, "sconce-guide", str(short)], 1, "their tokenizers differ")):
        out = run(sconce, "ppl", "--device", "cpu", *words)
        assert out.returncode == status and said in out.stderr, (words, out)


def test_bad_configuration_is_reported_with_line_and_column(sconce, installed):
    path = installed / "config/sconce"
    path.mkdir()
    (path / "sconce.yaml").write_text("chat:\n  thread: 2\n")
    out = run(sconce, "list")
    assert out.returncode == 1 and 'sconce.yaml:2:3: unknown key "chat.thread"' in out.stderr


class Serve:
    """Runs `sconce serve` on a port of its own."""

    def __init__(self, sconce, *args, cwd=None):
        self.process = subprocess.Popen(
            [sconce, "serve", "--listen", "127.0.0.1:0", *args], stderr=subprocess.PIPE, text=True, cwd=cwd
        )
        line = self.process.stderr.readline()
        assert line.startswith("Listening on http://127.0.0.1:"), line
        self.base = line.split()[-1].removesuffix("/v1")

    def children(self):
        pid = self.process.pid
        path = f"/proc/{pid}/task/{pid}/children"
        return [int(c) for c in pathlib.Path(path).read_text().split()]

    def servers(self):
        """Returns the services that run, without the history service, which starts by itself after
        requests."""
        names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in self.children()}
        # A child that has not executed its program yet has the name of this command.
        return [pid for pid, name in names.items() if name not in ("sconce", "sconce-history")]

    def get(self, path):
        with urllib.request.urlopen(self.base + path, timeout=30) as r:
            return r.read().decode()

    def ask(self, text, **kw):
        body = {"model": "sconce-guide", "messages": [{"role": "user", "content": text}], "max_tokens": 40, **kw}
        request = urllib.request.Request(
            self.base + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as r:
            return json.loads(r.read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=40)


def test_serve_starts_services_on_their_first_connection(sconce, installed):
    s = Serve(sconce)
    try:
        assert s.children() == []
        assert "ok" in s.get("/health")
        assert len(s.servers()) == 1
        answer = s.ask("What is sconce?", temperature=0)
        assert len(answer["choices"][0]["message"]["content"]) > 10
        # The children are the gateway, the chat service, and the cache service that chat uses.
        assert len(s.servers()) == 3
        other = Serve(sconce)
        assert other.ask("What is sconce?", temperature=0)["choices"] == answer["choices"]
        assert other.stop() == 0
        out = run(sconce, "status")
        assert out.returncode == 0 and "sconce-guide" in out.stdout
        assert "device   cpu" in out.stdout or "device   vulkan:" in out.stdout
        assert json.loads(run(sconce, "status", "--json").stdout)["device"]
    finally:
        assert s.stop() == 0


def test_serve_takes_a_relative_directory_of_models(sconce, home, guide, tmp_path):
    (tmp_path / "models").mkdir()
    shutil.copy(guide, tmp_path / "models/sconce-guide.gguf")
    (home / "empty.yaml").write_text("{}\n")
    s = Serve(sconce, "--models", "models", "--config", home / "empty.yaml", cwd=tmp_path)
    try:
        assert s.ask("What is sconce?", temperature=0)["choices"][0]["message"]["content"]
    finally:
        assert s.stop() == 0


def test_status_knows_services_that_this_gateway_never_asked(sconce, installed):
    s = Serve(sconce)
    try:
        s.ask("What is sconce?")
        gateway = next(pid for pid in s.children()
                       if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sconce-gateway\n")
        os.kill(gateway, signal.SIGTERM)
        while gateway in s.children():
            time.sleep(0.02)
        told = json.loads(run(sconce, "status", "--json").stdout)
        assert told["services"] == {"chat": "runs", "embed": "sleeps", "audio": "sleeps",
                                    "store": "sleeps", "keep": "sleeps",
                                    "history": told["services"]["history"], "cache": "runs"}
        assert told["chat_running"] and [m["name"] for m in told["models"]] == ["sconce-guide"]
        text = run(sconce, "status").stdout
        assert "chat     runs\n" in text and "embed    sleeps" in text and " wrote " in text
        # Over TCP the gateway does not tell the states, and there is no other source.
        told = json.loads(run(sconce, "status", "--json", "--address", s.base + "/v1").stdout)
        assert told["services"]["chat"] == "unknown" and told["chat_running"] is None
    finally:
        s.stop()


def test_serve_restarts_a_service_that_was_killed(sconce, installed):
    s = Serve(sconce)
    try:
        first = s.ask("What is sconce?", temperature=0)["choices"]
        for pid in s.children():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        assert s.ask("What is sconce?", temperature=0)["choices"] == first
    finally:
        assert s.stop() == 0


def test_idle_services_leave_and_come_back(sconce, installed):
    path = installed / "config/sconce"
    path.mkdir()
    (path / "sconce.yaml").write_text("gateway:\n  idle_timeout: 300ms\nchat:\n  idle_timeout: 300ms\n"
                                      "cache:\n  idle_timeout: 300ms\nhistory:\n  idle_timeout: 300ms\n")
    s = Serve(sconce)
    try:
        for _ in range(5):
            s.ask("What is sconce?", max_tokens=4)
            end = time.monotonic() + 10
            while s.children() and time.monotonic() < end:
                time.sleep(0.05)
            assert s.children() == []
    finally:
        assert s.stop() == 0


def test_serve_asks_for_keys_once_there_are_some(sconce, installed):
    path = installed / "config/sconce"
    path.mkdir()
    (path / "api-keys").write_text("of-the-file me\n")
    s = Serve(sconce)
    try:
        with pytest.raises(urllib.error.HTTPError) as e:
            s.get("/v1/models")
        assert e.value.code == 401
        request = urllib.request.Request(s.base + "/v1/models", headers={"x-api-key": "of-the-file"})
        with urllib.request.urlopen(request, timeout=30) as r:
            assert r.status == 200
    finally:
        assert s.stop() == 0


def test_serve_tells_of_a_configuration_that_breaks_while_it_runs(sconce, installed):
    path = installed / "config/sconce"
    path.mkdir()
    s = Serve(sconce)
    try:
        (path / "sconce.yaml").write_text("chat:\n  threds: 2\n")
        with pytest.raises(urllib.error.HTTPError) as e:
            s.ask("What is sconce?")
        assert e.value.code == 503 and "threds" in e.value.read().decode()
        (path / "sconce.yaml").unlink()
        end = time.monotonic() + 10
        while s.children() and time.monotonic() < end:
            time.sleep(0.05)
        assert s.ask("What is sconce?", max_tokens=2)["choices"]
    finally:
        assert s.stop() == 0


def test_serve_refuses_a_port_that_is_taken(sconce, installed):
    s = Serve(sconce)
    try:
        port = s.base.rsplit(":", 1)[1]
        out = run(sconce, "serve", "--listen", f"127.0.0.1:{port}")
        assert out.returncode == 1 and "--listen" in out.stderr
    finally:
        s.stop()
