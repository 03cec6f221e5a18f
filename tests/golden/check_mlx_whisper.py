#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tiny random Whisper models in the form of mlx-whisper with what mlx-whisper computes.

    check_mlx_whisper.py WHISPER_EVAL

WHISPER_EVAL is the program. The models are saved as mlx-examples' converter saves them
(config.json, weights.safetensors), in F32 and F16 and with quantized matrices; the tokenizer is
that of audio/whisper. The logits of a text about random frames must agree with an NMSE of 1e-10
where products are floats, and of 2e-3 where they round their inputs to bytes. Exit status: 1 if
they differ, 77 (skipped) without mlx-whisper.
"""
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
try:
    import mlx.core as mx
    import mlx.nn as nn
    import numpy as np
    from mlx.utils import tree_flatten, tree_map_with_path

    # The package imports programs that the model does not need, so only its model is imported.
    root = pathlib.Path(importlib.util.find_spec("mlx_whisper").origin).parent
    package = types.ModuleType("mlx_whisper")
    package.__path__ = [str(root)]
    sys.modules["mlx_whisper"] = package
    decoding = types.ModuleType("mlx_whisper.decoding")
    decoding.decode = decoding.detect_language = None
    sys.modules["mlx_whisper.decoding"] = decoding
    from mlx_whisper import whisper
except (ImportError, AttributeError) as e:
    print("skipped: %s" % e)
    sys.exit(77)

GOLDEN = pathlib.Path(__file__).resolve().parent / "audio" / "whisper"
N_TOKENS = 12
# The type of the numbers, quantize() or None, the largest NMSE
CASES = [
    ("float32", None, 1e-10),
    ("float16", None, 1e-6),
    ("float32", (64, 4, "affine"), 2e-3),
    ("float16", (32, 8, "affine"), 2e-3),
    ("float32", (32, 4, "mxfp4"), 2e-3),
    ("float32", (32, 8, "mxfp8"), 1e-6),
]


def draw(path, x):
    noise = mx.random.normal(x.shape)
    if path.endswith("bias"):
        return noise * 0.3
    if x.ndim == 1:
        return 1 + noise * 0.2
    if "positional" in path:
        return noise * 0.1
    return noise * 1.5 / (x.size // x.shape[0]) ** 0.5


def make(path, dtype, how):
    """Saves a model. Returns it with all numbers in F32."""
    vocab = json.loads((GOLDEN / "config.json").read_text())["vocab_size"]
    dims = whisper.ModelDimensions(n_mels=80, n_audio_ctx=1500, n_audio_state=64, n_audio_head=2,
                                   n_audio_layer=2, n_vocab=vocab, n_text_ctx=64, n_text_state=64,
                                   n_text_head=2, n_text_layer=2)
    kind = getattr(mx, dtype)
    model = whisper.Whisper(dims, mx.float32)
    heads = model.alignment_heads
    model.update(tree_map_with_path(
        lambda p, x: x if "alignment" in p else draw(p, x).astype(kind), model.parameters()))
    config = vars(dims) | {"model_type": "whisper"}
    if how:
        group, bits, mode = how
        nn.quantize(model, group_size=group, bits=bits, mode=mode)
        config["quantization"] = {"group_size": group, "bits": bits} | (
            {"mode": mode} if mode != "affine" else {})
    path.mkdir()
    mx.save_safetensors(str(path / "weights.safetensors"), dict(tree_flatten(model.parameters())))
    (path / "config.json").write_text(json.dumps(config))
    shutil.copy(GOLDEN / "tokenizer.json", path)
    model.update(tree_map_with_path(
        lambda p, x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x,
        model.parameters()))
    assert heads.shape == model.alignment_heads.shape
    return model


def check(program, root, dtype, how, limit, seed):
    mx.random.seed(seed)
    model = make(root / "model", dtype, how)
    frames = mx.random.normal((1, 3000, 80)) * 0.5
    tokens = mx.random.randint(0, model.dims.n_vocab, (N_TOKENS,)).astype(mx.int32)
    want = np.array(model(frames, tokens[None])[0].astype(mx.float32))
    np.array(frames[0], dtype="<f4").tofile(root / "frames")
    np.array(tokens, dtype="<i4").tofile(root / "tokens")
    done = subprocess.run([program, root / "model", root / "frames", root / "tokens", "1",
                           root / "logits", "--exact"], capture_output=True, text=True)
    shutil.rmtree(root / "model")
    if done.returncode:
        print(dtype, how, done.stderr.strip())
        return False
    got = np.fromfile(root / "logits", "<f4").reshape(want.shape)
    error = float(((got - want) ** 2).sum() / (want ** 2).sum())
    print("%s %-20s NMSE %.2g%s" % (dtype, how or "", error, "" if error <= limit else "  TOO LARGE"))
    return error <= limit


def main():
    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        fine = [check(sys.argv[1], root, *case, seed) for seed, case in enumerate(CASES)]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
