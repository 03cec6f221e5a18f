# SPDX-License-Identifier: Apache-2.0
"""Converts the bundled model with `sconce convert`, and runs the result."""
import array
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess

import pytest


TREE = pathlib.Path(__file__).resolve().parents[2]
MODELS = TREE / "tests/golden/models"


def run(*args, **kw):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, **kw)


def lines(out):
    assert out.returncode == 0, out
    return [json.loads(line) for line in out.stdout.splitlines()]


def test_a_converted_model_predicts_as_well(sconce, guide, home, tmp_path):
    out, text = tmp_path / "out.gguf", tmp_path / "text"
    text.write_text("sconce runs models on your own machine. Which models are there?\n" * 40)
    *tensors, result = lines(run(sconce, "convert", str(guide), str(out), "--type", "Q8_0", "--json"))
    assert result["tensors"] == len(tensors) and result["file_bytes"] == out.stat().st_size
    assert max(t["error"] for t in tensors) == result["largest_error"] < 0.02
    assert not (tmp_path / "out.gguf.part").exists()
    args = ("-c", "64", "-t", "1", "--device", "cpu", "--json")
    one = json.loads(run(sconce, "ppl", *args, str(guide), str(text)).stdout)
    two = json.loads(run(sconce, "ppl", *args, str(out), str(text)).stdout)
    assert abs(two["ppl"] / one["ppl"] - 1) < 0.05
    before = json.loads(run(sconce, "info", str(guide), "--json", "--meta").stdout)["metadata"]
    after = json.loads(run(sconce, "info", str(out), "--json", "--meta").stdout)["metadata"]
    changed = {k for k in set(before) | set(after) if before.get(k) != after.get(k)}
    assert changed <= {"general.file_type", "general.quantization_version", "general.alignment"}


def test_a_dry_run_writes_nothing(sconce, guide, home, tmp_path):
    *tensors, result = lines(run(sconce, "convert", str(guide), "--type", "F16", "--dry-run", "--json"))
    assert {t["to"] for t in tensors if len(t["shape"]) > 1} == {"F16"}
    assert result["bytes_to"] == sum(t["bytes_to"] for t in tensors)
    assert not list(tmp_path.glob("*.gguf*"))
    *tensors, result = lines(run(sconce, "convert", str(guide), "--type", "q8_0", "--dry-run", "--json",
                                 "--tensor-type", r"blk\.0\.ffn_up=q4_0", "--embedding-type", "f16"))
    to = {t["tensor"]: t["to"] for t in tensors}
    assert to["blk.0.ffn_up.weight"] == "Q4_0" and to["blk.1.ffn_up.weight"] == "Q8_0"
    assert to["token_embd.weight"] == "F16"


def test_an_interrupted_conversion_is_continued(sconce, guide, home, tmp_path):
    out = tmp_path / "out.gguf"
    p = subprocess.Popen([sconce, "convert", str(guide), str(out), "--type", "Q8_0", "--json"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdout.readline()
    os.kill(p.pid, signal.SIGINT)
    _, err = p.communicate(timeout=60)
    if p.returncode == 0:
        pytest.skip("the conversion was faster than the signal")
    assert p.returncode == 1 and "continues it" in err and not out.exists()
    *tensors, result = lines(run(sconce, "convert", str(guide), str(out), "--type", "Q8_0", "--json"))
    assert tensors[0]["resumed"] and not tensors[-1]["resumed"]
    whole = tmp_path / "whole.gguf"
    lines(run(sconce, "convert", str(guide), str(whole), "--type", "Q8_0", "--json", "-t", "1"))
    assert whole.read_bytes() == out.read_bytes()


def test_convert_says_what_is_wrong(sconce, guide, home, tmp_path):
    there, model = tmp_path / "there", str(guide)
    there.write_text("hello")
    new = str(tmp_path / "new")
    for words, status, said in (
            ([], 2, "--type is missing"), (["--type", "Q8_0"], 2, "MODEL is missing"),
            ([model, "--type", "Q8_0"], 2, "OUT is missing"),
            ([model, new, new, "--type", "Q8_0"], 2, "more than one OUT"),
            ([model, new, "--type", "Q8_0", "-t", "0"], 2, "--threads must be a whole number"),
            ([model, new, "--type", "Q9"], 1, 'there is no type "Q9"'),
            ([model, new, "--type", "Q8_0", "--tensor-type", "x"], 1, "is not PATTERN=TYPE"),
            ([model, new, "--type", "Q8_0", "--output-type", "x"], 1, 'there is no number format "x"'),
            ([model, new, "--type", "Q8_0", "--imatrix", model], 1, "is not an importance matrix"),
            ([model, str(there), "--type", "Q8_0"], 1, "--force replaces it"),
            ([model, model, "--type", "Q8_0", "--force"], 1, "would replace the model")):
        out = run(sconce, "convert", *words)
        assert out.returncode == status and said in out.stderr, (words, out)
    assert there.read_text() == "hello"
    assert not (tmp_path / "new").exists()
    assert run(sconce, "convert", model, str(there), "--type", "q8_0", "--force", "-q").returncode == 0
    assert there.read_bytes()[:4] == b"GGUF"
    assert "Q4_K_M" in run(sconce, "convert", "--type", "list").stdout.split()


def directory(name, tmp_path):
    """Copies a tiny model, and gives it a tokenizer of bytes and what GGUF files can express."""
    path = tmp_path / name
    shutil.copytree(MODELS / name, path)
    config = json.loads((path / "config.json").read_text())
    tokenizer = json.loads((MODELS / "llama-gqa/tokenizer.json").read_text())
    vocab, n = tokenizer["model"]["vocab"], config.get("text_config", config)["vocab_size"]
    tokenizer["model"]["vocab"] = {k: i for k, i in vocab.items() if i < n}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (path / "tokenizer_config.json").unlink(missing_ok=True)
    if "query_pre_attn_scalar" in config:
        config["query_pre_attn_scalar"] = config["head_dim"]
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", ["llama-gqa", "llama-own-head", "llama3-scaled", "mistral-mix", "mixtral",
                                  "qwen2-tied", "qwen2_moe", "qwen3-norm", "qwen3-yarn", "qwen3_moe",
                                  "gemma2", "gemma3", "gemma4", "gemma4-moe", "gemma4-keys",
                                  "gpt_oss", "gpt_oss-plain", "qwen3_next", "qwen3_5", "qwen3_5_moe",
                                  "gemma3n", "bitnet-silu"])
def test_a_directory_becomes_a_file_with_the_same_results(sconce, home, tmp_path, name):
    path, out, text = directory(name, tmp_path), tmp_path / "out.gguf", tmp_path / "text"
    text.write_text("abc def ABC. 0123 (xyz)! " * 40)
    *tensors, result = lines(run(sconce, "convert", str(path), str(out), "--type", "F32", "--json"))
    assert result["largest_error"] == 0
    assert len({t["tensor"] for t in tensors}) == len(tensors)
    args = ("-c", "64", "--chunks", "3", "-t", "1", "--device", "cpu", "--json", "--kv-type", "f32")
    one = json.loads(run(sconce, "ppl", *args, str(path), str(text)).stdout)
    two = json.loads(run(sconce, "ppl", *args, str(out), str(text)).stdout)
    # The products of MXFP4 round their inputs, those of F32 do not.
    assert abs(one["nll"] - two["nll"]) < (2e-2 if name == "gpt_oss" else 1e-5)
    golden = MODELS / (name + ".gguf")
    if golden.exists():
        keys = json.loads(run(sconce, "info", str(golden), "--json", "--meta").stdout)["metadata"]
        made = json.loads(run(sconce, "info", str(out), "--json", "--meta").stdout)["metadata"]
        own = ("tokenizer.", "general.")
        keys = {k: v for k, v in keys.items() if not k.startswith(own)}
        for key, value in keys.items():  # a list of equal counts may be one count
            assert made[key] in (value, value.strip("[]").split(", ")[0]), key


def test_a_directory_that_a_file_cannot_express_is_refused(sconce, home, tmp_path):
    out = tmp_path / "out.gguf"
    for name, said in (("bitnet", "cannot say what config.json says about the activation"),
                       ("llama-linear", "cannot say what config.json says about the activation"),
                       ("gemma3", "cannot have this tokenizer")):
        done = run(sconce, "convert", str(MODELS / name), str(out), "--type", "F16")
        assert done.returncode == 1 and said in done.stderr, done
        assert not list(tmp_path.glob("out*"))


def test_an_importance_matrix_is_made_and_used(sconce, guide, home, tmp_path):
    text, one, two = tmp_path / "text", tmp_path / "one", tmp_path / "two"
    text.write_text("sconce runs models on your own machine. Which models are there?\n" * 80)
    args = ("-c", "64", "--chunks", "3")
    out = run(sconce, "imatrix", str(guide), str(text), "-o", str(one), *args, "-t", "1")
    assert out.returncode == 0 and "from 192 tokens" in out.stdout, out
    assert out.stdout.startswith("[1/3]\n[2/3]\n[3/3]\n")
    assert run(sconce, "imatrix", str(guide), str(text), "-o", str(two), *args, "-t", "3").returncode == 0
    assert one.read_bytes() == two.read_bytes()
    *tensors, _ = lines(run(sconce, "convert", str(guide), str(tmp_path / "out"), "--type", "Q4_0", "--json",
                            "--imatrix", str(one)))
    used = [t["tensor"] for t in tensors if t["importance"]]
    assert "blk.0.attn_q.weight" in used and "blk.1.ffn_down.weight" in used
    meta = json.loads(run(sconce, "info", str(tmp_path / "out"), "--json", "--meta").stdout)["metadata"]
    assert meta["quantize.imatrix.chunks_count"] == "3" and meta["quantize.imatrix.dataset"] == "text"


def test_experts_have_sums_of_their_own(sconce, home, tmp_path):
    path, text, out = directory("qwen3_moe", tmp_path), tmp_path / "text", tmp_path / "im"
    text.write_text("abc def ABC. 0123 (xyz)! " * 40)
    assert run(sconce, "imatrix", str(path), str(text), "-o", str(out), "-c", "32").returncode == 0
    model = tmp_path / "out.gguf"
    *tensors, _ = lines(run(sconce, "convert", str(path), str(model), "--type", "Q4_0", "--json",
                            "--tensor-type", "exps=f16", "--imatrix", str(out)))
    assert [t["importance"] for t in tensors if t["tensor"] == "blk.0.ffn_up_exps.weight"] == [True]


def test_imatrix_says_what_is_wrong(sconce, guide, home, tmp_path):
    text, there = tmp_path / "text", tmp_path / "there"
    text.write_text("hello")
    there.write_text("hello")
    new, model = str(tmp_path / "new"), str(guide)
    for words, status, said in (
            ([], 2, "MODEL and TEXT are missing"), ([model], 2, "TEXT is missing"),
            ([model, str(text)], 2, "-o, --output is missing"),
            ([model, str(text), "-o", new, "-c", "0"], 2, "must be a whole number from 1"),
            ([model, str(text), "-o", new, "-c", "8"], 1, "between 16 and"),
            ([model, str(text), "-o", new], 1, "one chunk needs 512"),
            ([model, str(guide), "-o", str(there), "-c", "16"], 1, "--force replaces it")):
        out = run(sconce, "imatrix", *words)
        assert out.returncode == status and said in out.stderr, (words, out)
    assert there.read_text() == "hello" and not (tmp_path / "new").exists()


def tensors_of(path):
    """Returns the types, shapes and bytes of all tensors of a directory."""
    found = {}
    for file in sorted(path.glob("*.safetensors")):
        data = file.read_bytes()
        n = int.from_bytes(data[:8], "little")
        for name, t in json.loads(data[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = (8 + n + x for x in t["data_offsets"])
                found[name] = t["dtype"], t["shape"], data[begin:end]
    return found


@pytest.mark.parametrize("name", ["mlx-llama-nvfp4", "mlx-qwen3-6bit", "mlx-qwen3_5_moe-8bit",
                                  "mlx-gemma4-3bit", "mlx-gemma4-mxfp8"])
def test_a_directory_of_mlx_keeps_its_bits(sconce, home, tmp_path, name):
    out = tmp_path / "out"
    *tensors, result = lines(run(sconce, "convert", str(MODELS / name), str(out), "--type", "MLX",
                                 "--json"))
    assert result["largest_error"] == 0 and result["requantized"] == 0
    assert tensors_of(out) == tensors_of(MODELS / name)


def floats(tensor):
    assert tensor[0] == "F32"
    return array.array("f", tensor[2])


@pytest.mark.parametrize("name", ["llama-gqa", "llama-own-head", "llama-yarn", "mistral-mix", "mixtral",
                                  "qwen2-tied", "qwen2_moe", "qwen3-norm", "qwen3_moe", "gemma2", "gemma3",
                                  "gpt_oss-plain", "qwen3_next", "qwen3_5"])
def test_a_file_becomes_the_directory_that_its_directory_becomes(sconce, home, tmp_path, name):
    path, file = directory(name, tmp_path), tmp_path / "file.gguf"
    one, two, text = tmp_path / "one", tmp_path / "two", tmp_path / "text"
    text.write_text("abc def ABC. 0123 (xyz)! " * 40)
    lines(run(sconce, "convert", str(path), str(file), "--type", "F32", "--json"))
    for model, out in ((path, one), (file, two)):
        lines(run(sconce, "convert", str(model), str(out), "--type", "MLX8_G32", "--json"))
    want, got = tensors_of(one), tensors_of(two)
    assert set(want) == set(got)
    for key in want:
        if want[key] != got[key]:
            # GGUF files have 1 + the weight of a norm, and -exp(A_log), in F32. The norms of q and k
            # may be balanced: the weights of one are multiplied by powers of two, and those of the
            # other divided by them.
            assert "norm" in key or "A_log" in key, key
            assert name.startswith(("gemma", "qwen3_")) and want[key][:2] == got[key][:2], key
            if name == "qwen3_next" and key.endswith(("q_norm.weight", "k_norm.weight")):
                assert all(math.frexp(a / b)[0] == 0.5 for a, b in zip(floats(want[key]), floats(got[key])))
                continue
            assert all(abs(a - b) < 3e-7 for a, b in zip(floats(want[key]), floats(got[key]))), key
    args = ("-c", "64", "--chunks", "2", "-t", "1", "--device", "cpu", "--json", "--kv-type", "f32")
    nll = [json.loads(run(sconce, "ppl", *args, str(out), str(text)).stdout)["nll"] for out in (one, two)]
    assert abs(nll[0] - nll[1]) < 1e-4
    ids = [run(sconce, "tokenize", "-m", str(model), "ab C\n 12x").stdout for model in (file, two)]
    assert ids[0] and ids[0] == ids[1]


def test_the_scaling_of_llama_3_is_found_again(sconce, home, tmp_path):
    path, file, out = directory("llama-gqa", tmp_path), tmp_path / "file.gguf", tmp_path / "out"
    config = json.loads((path / "config.json").read_text())
    del config["rope_parameters"]
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}
    config |= {"rope_theta": 500000.0, "rope_scaling": scaling}
    (path / "config.json").write_text(json.dumps(config))
    lines(run(sconce, "convert", str(path), str(file), "--type", "F32", "--json"))
    lines(run(sconce, "convert", str(file), str(out), "--type", "MLX", "--json"))
    made = json.loads((out / "config.json").read_text())
    assert {k: made["rope_scaling"][k] for k in scaling} == scaling
    assert made["rope_theta"] == 500000


def test_a_file_that_a_directory_cannot_express_is_refused(sconce, guide, home, tmp_path):
    out, few = tmp_path / "out", tmp_path / "few.gguf"
    lines(run(sconce, "convert", str(directory("qwen3-norm", tmp_path)), str(few), "--type", "Q8_0",
              "--json"))
    for model, said in ((MODELS / "gpt_oss.gguf", "choose a type"),
                        (MODELS / "gemma4.gguf", "cannot hold this tokenizer"), (few, "choose a type")):
        done = run(sconce, "convert", str(model), str(out), "--type", "MLX")
        assert done.returncode == 1 and said in done.stderr, done
        assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name, first, back", [("awq4", "GPTQ", "AWQ"), ("gptq8", "MLX", "GPTQ")])
def test_a_repacked_model_has_the_same_codes(sconce, home, tmp_path, name, first, back):
    one, two = tmp_path / "one", tmp_path / "two"
    lines(run(sconce, "convert", str(MODELS / name), str(one), "--type", first, "--json"))
    lines(run(sconce, "convert", str(one), str(two), "--type", back, "--json"))
    assert tensors_of(two) == tensors_of(MODELS / name)


@pytest.mark.parametrize("name, kind, said", [
    ("gptq4", "MLX", "act-order"), ("gptq4", "AWQ", "act-order"), ("fp8", "MLX", "not integers"),
    ("awq4", "MLX", "groups of 16 columns"), ("llama-gqa", "GPTQ", "is not quantized"),
    ("mlx2", "GPTQ", "not its scale times an integer"), ("bitnet", "MLX", "ternary")])
def test_a_loss_is_refused_with_its_reason(sconce, home, tmp_path, name, kind, said):
    out = run(sconce, "convert", str(MODELS / name), str(tmp_path / "out"), "--type", kind)
    assert out.returncode == 1 and said in out.stderr
    assert not (tmp_path / "out").exists()


def test_a_directory_has_all_files(sconce, home, tmp_path):
    path, out = MODELS / "mlx-qwen3-6bit", tmp_path / "out"
    out.mkdir()
    wrong = run(sconce, "convert", str(path), str(out), "--type", "MLX", "--force")
    assert wrong.returncode == 1 and "a directory is not replaced" in wrong.stderr
    out.rmdir()
    lines(run(sconce, "convert", str(path), str(out), "--type", "MLX", "--shard-size", "1", "--json"))
    assert (out / "model.safetensors.index.json").exists() and (out / "tokenizer.json").exists()
    config = json.loads((out / "config.json").read_text())
    assert config["quantization"]["bits"] == 6
    assert config["quantization"]["model.layers.1.mlp.down_proj"]["bits"] == 2
    assert not (tmp_path / "out.part").exists()


def test_shards_of_an_interrupted_conversion_with_other_options_are_removed(sconce, home, tmp_path):
    part = tmp_path / "out.part"
    part.mkdir()
    for name in ("conversion", "model-00099-of-00099.safetensors", "model-00001-of-00099.safetensors.part"):
        (part / name).write_bytes(b"of another conversion")
    lines(run(sconce, "convert", str(MODELS / "mlx-qwen3-6bit"), str(tmp_path / "out"), "--type", "MLX", "--json"))
    assert not list((tmp_path / "out").glob("*00099*"))
