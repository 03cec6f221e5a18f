#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantizes tiny random models with `sconce convert` and with mlx-lm, and compares all tensors.

    check_mlx_convert.py SCONCE

SCONCE is the program. The models have the configurations of make_mlx.py and random weights in BF16,
F16 or F32. mlx-lm saves each of them without quantization; sconce converts this directory, and
mlx-lm quantizes the same weights. Names, types, shapes and bits of all tensors must be equal, and
mlx-lm must load the directory of sconce and compute the same logits from it as from its own. All
these models are also converted to a GGUF file, and from there to a directory, with the same result.
Exit status: 0 when all are equal, 1 when some differ, 77 (skipped) without mlx-lm.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

try:
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_map
    from mlx_lm.convert import mixed_quant_predicate_builder
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model
    import make_mlx
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 8}
LLAMA = make_mlx.LLAMA | WIDE
MOE = make_mlx.QWEN3_MOE | WIDE | {"moe_intermediate_size": 64}
QWEN3_5 = make_mlx.QWEN3_5 | {"text_config": make_mlx.QWEN3_5["text_config"] | {
    "hidden_size": 64, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64}}
QWEN3_NEXT = make_mlx.QWEN3_NEXT | {
    "hidden_size": 64, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64}
QWEN3_5_DENSE = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
                 "tie_word_embeddings": False, "text_config": make_mlx.DELTA | {
                     "model_type": "qwen3_5_text", "linear_num_key_heads": 2,
                     "linear_num_value_heads": 4, "tie_word_embeddings": False}}
# GGUF files of gpt-oss always mean that the ramp of YaRN is not rounded.
OSS = make_mlx.OSS | {"hidden_size": 128, "intermediate_size": 128,
                      "rope_scaling": make_mlx.OSS["rope_scaling"] | {"truncate": False}}
GEMMA3N = make_mlx.GEMMA3N | {"text_config": make_mlx.GEMMA3N["text_config"] | {
    "hidden_size": 128, "intermediate_size": [128] * 4}}
GEMMA4 = make_mlx.gemma4(make_mlx.EXPERTS, 2, hidden_size=128, moe_intermediate_size=64)

# The type of sconce, the arguments of quantize_model(), the recipe, the configuration, the numbers.
CASES = [
    ("MLX%d" % bits, (64, bits, "affine"), None, LLAMA, kind)
    for bits, kind in zip((2, 3, 4, 5, 6, 8), (mx.bfloat16, mx.float16, mx.float32) * 2)
] + [
    ("MLX4_G32", (32, 4, "affine"), None, MOE, mx.bfloat16),
    ("MLX3_G128", (128, 3, "affine"), None, LLAMA, mx.float16),
    ("MLX_MXFP4", (32, 4, "mxfp4"), None, LLAMA, mx.bfloat16),
    ("MLX_MXFP8", (32, 8, "mxfp8"), None, LLAMA, mx.float16),
    ("MLX_NVFP4", (16, 4, "nvfp4"), None, LLAMA, mx.float32),
    ("MLX_NVFP4", (16, 4, "nvfp4"), None, LLAMA, mx.float16),
    ("MLX_MIXED_2_6", (64, 4, "affine"), "mixed_2_6", LLAMA, mx.bfloat16),
    ("MLX_MIXED_3_4_G32", (32, 4, "affine"), "mixed_3_4", LLAMA, mx.bfloat16),
    ("MLX4", (64, 4, "affine"), None, QWEN3_5, mx.bfloat16),
    ("MLX4", (64, 4, "affine"), None, QWEN3_5_DENSE, mx.float32),
    ("MLX4", (64, 4, "affine"), None, QWEN3_NEXT, mx.bfloat16),
    ("MLX4", (64, 4, "affine"), None, OSS, mx.bfloat16),
    ("MLX_MXFP4", (32, 4, "mxfp4"), None, OSS, mx.bfloat16),
    ("MLX4", (64, 4, "affine"), None, GEMMA3N, mx.bfloat16),
    ("MLX6", (64, 6, "affine"), None, GEMMA4, mx.bfloat16),
    ("MLX5", (64, 5, "affine"), None, make_mlx.GEMMA4_E2B, mx.bfloat16),
]


def tensors(path):
    found = {}
    for file in path.glob("*.safetensors"):
        found.update(mx.load(str(file)))
    return found


def equal(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    words = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32}[a.dtype.size]
    return bool(mx.all(a.view(words) == b.view(words)))


def make_model(config, kind, path):
    """Saves a model whose numbers are floats."""
    model, new = make_mlx.build(config, (32, 4, "affine"), AllFalse())
    model.update(tree_map(lambda x: x.astype(kind), model.parameters()))
    save_model(path, model)
    for key in ("quantization", "quantization_config"):
        new.pop(key, None)
    save_config(new, path / "config.json")


def convert(sconce, model, out, kind):
    subprocess.run([sconce, "convert", str(model), str(out), "--type", kind, "-q"], check=True,
                   stdout=subprocess.DEVNULL)


def convert_gguf(sconce, root, kind, numbers):
    """Converts the model to a GGUF file, and the file to a directory, which it returns. The model
    gets a tokenizer of bytes."""
    models = pathlib.Path(__file__).resolve().parent / "models"
    config = json.loads((root / "model/config.json").read_text())
    n = config.get("text_config", config)["vocab_size"]
    tokenizer = json.loads((models / "llama-gqa/tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {k: i for k, i in vocab.items() if i < n}
    (root / "model/tokenizer.json").write_text(json.dumps(tokenizer))
    convert(sconce, root / "model", root / "file.gguf",
            {mx.bfloat16: "BF16", mx.float16: "F16", mx.float32: "F32"}[numbers])
    convert(sconce, root / "file.gguf", root / "again", kind)
    return root / "again"


class AllFalse(dict):
    """Overrides that leave all matrices as they are."""

    def __contains__(self, key):
        return True

    def __getitem__(self, key):
        return False


def check(sconce, kind, how, recipe, config, numbers, root):
    shutil.rmtree(root, ignore_errors=True)
    make_model(config, numbers, root / "model")
    model, config = load_model(root / "model", lazy=True)
    predicate = mixed_quant_predicate_builder(recipe, model, how[0]) if recipe else None
    model, _ = quantize_model(model, config, *how, quant_predicate=predicate)
    save_model(root / "mlx", model)
    convert(sconce, root / "model", root / "sconce", kind)
    made = {"": root / "sconce", " by GGUF": convert_gguf(sconce, root, kind, numbers)}
    return sum(compare(kind, str(numbers).split(".")[-1] + how, path, model, tensors(root / "mlx"))
               for how, path in made.items())


def compare(kind, numbers, path, model, theirs):
    """Compares a directory of sconce with the tensors and the logits of mlx-lm. Returns the number
    of differences."""
    ours = tensors(path)
    bad = sorted(set(ours) ^ set(theirs)) + [
        name for name in sorted(set(ours) & set(theirs)) if not equal(ours[name], theirs[name])]
    tokens = mx.array([[3, 5, 7, 9, 11, 13]])
    loaded, _ = load_model(path)
    if not bad and not bool(mx.all(loaded(tokens) == model(tokens))):
        bad = ["the logits"]
    print("%-18s %-16s %4d tensors, %d differ %s" % (kind, numbers, len(theirs), len(bad), bad[:3]),
          flush=True)
    return len(bad)


def main():
    mx.set_default_device(mx.cpu)
    mx.random.seed(1)
    with tempfile.TemporaryDirectory() as root:
        n_bad = sum(check(sys.argv[1], *case, pathlib.Path(root) / "case") for case in CASES)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
