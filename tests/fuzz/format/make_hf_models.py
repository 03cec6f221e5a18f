#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz-hf-model: config.json, a NUL, and model.safetensors of the smallest
models in each format whose matrices are several tensors. Needs torch and numpy.

    make_hf_models.py CORPUS
"""
import json
import pathlib
import struct
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))
from coded_matrices import CODERS, coded_config

WIDTH = 32
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
          "intermediate_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 1,
          "num_key_value_heads": 1, "head_dim": WIDTH, "vocab_size": WIDTH,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
          "tie_word_embeddings": True}
MATRICES = ["self_attn.%s_proj" % x for x in "qkvo"] + ["mlp.%s_proj" % x
                                                       for x in ("gate", "up", "down")]
CODED = {
    "gptq4": dict(method="gptq", bits=4, group=16, order=True),
    "gptq3": dict(method="gptq", bits=3, group=32, v2=True),
    "awq": dict(method="awq", bits=4, group=16),
    "paro": dict(method="paroquant", bits=4, group=16, rounds=2),
    "tensors4": dict(method="compressed-tensors", bits=4, group=16, order=True),
    "tensors8": dict(method="compressed-tensors", bits=8, group=32),
    "fp8": dict(method="fp8"),
    "nvfp4": dict(method="nvfp4"),
    "nf4": dict(method="bitsandbytes"),
}
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32",
         torch.int16: "I16", torch.int64: "I64", torch.uint8: "U8", torch.int8: "I8",
         torch.float8_e4m3fn: "F8_E4M3"}


def safetensors(tensors):
    head, data = {}, b""
    for name, t in tensors.items():
        raw = t.contiguous().view(torch.uint8).numpy().tobytes() if t.dim() else t.numpy().tobytes()
        head[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def ends():
    return {"model.embed_tokens.weight": torch.randn(WIDTH, WIDTH).half(),
            "model.norm.weight": torch.ones(WIDTH),
            "model.layers.0.input_layernorm.weight": torch.ones(WIDTH),
            "model.layers.0.post_attention_layernorm.weight": torch.ones(WIDTH)}


def coded(how):
    gen = torch.Generator().manual_seed(1)
    tensors = ends()
    for name in MATRICES:
        w = torch.randn(WIDTH, WIDTH, generator=gen, dtype=torch.float64)
        for end, t in CODERS[how["method"]](w, how, gen).items():
            tensors["model.layers.0.%s.%s" % (name, end)] = t
    return CONFIG | {"quantization_config": coded_config(how)}, tensors


def mlx(bits, group, mode):
    tensors = ends()
    for name in MATRICES:
        name = "model.layers.0." + name
        words = np.random.default_rng(1).integers(0, 1 << 32, (WIDTH, WIDTH // 32 * bits), np.uint32)
        tensors[name + ".weight"] = torch.from_numpy(words)
        shape = (WIDTH, WIDTH // group)
        if mode == "affine":
            tensors[name + ".scales"] = torch.full(shape, 0.1).bfloat16()
            tensors[name + ".biases"] = torch.full(shape, -0.2).bfloat16()
        else:
            tensors[name + ".scales"] = torch.full(shape, 120, dtype=torch.uint8)
    return CONFIG | {"quantization": {"bits": bits, "group_size": group, "mode": mode}}, tensors


def bitnet():
    tensors = ends() | {"model.layers.0.self_attn.attn_sub_norm.weight": torch.ones(WIDTH),
                        "model.layers.0.mlp.ffn_sub_norm.weight": torch.ones(WIDTH)}
    for name in MATRICES:
        codes = torch.randint(0, 3, (4, WIDTH // 4, WIDTH)) << torch.arange(0, 8, 2)[:, None, None]
        tensors["model.layers.0.%s.weight" % name] = codes.sum(0).to(torch.uint8)
        tensors["model.layers.0.%s.weight_scale" % name] = torch.ones(1).bfloat16()
    return CONFIG | {"architectures": ["BitNetForCausalLM"], "model_type": "bitnet",
                     "hidden_act": "relu2", "quantization_config": {
                         "quant_method": "bitnet", "linear_class": "bitlinear"}}, tensors


def whisper():
    """A model of mlx-whisper with a quantized token table."""
    n = WIDTH
    tensors = {"decoder.positional_embedding": torch.zeros(16, n).half(),
               "encoder.conv1.weight": torch.randn(n, 3, 2).half(),
               "encoder.conv2.weight": torch.randn(n, 3, n).half(),
               "alignment_heads": torch.zeros(1, 2, dtype=torch.int64)}
    blocks = {"encoder": ("attn",), "decoder": ("attn", "cross_attn")}
    for name in ("encoder.conv1.bias", "encoder.conv2.bias", "encoder.ln_post.weight",
                 "encoder.ln_post.bias", "decoder.ln.weight", "decoder.ln.bias"):
        tensors[name] = torch.ones(n).half()
    for part, attentions in blocks.items():
        block = part + ".blocks.0."
        for norm in [a + "_ln" for a in attentions] + ["mlp_ln"]:
            tensors |= {block + norm + ".weight": torch.ones(n).half(),
                        block + norm + ".bias": torch.zeros(n).half()}
        for matrix in [a + "." + x for a in attentions for x in ("query", "key", "value", "out")]:
            tensors[block + matrix + ".weight"] = torch.randn(n, n).half()
            if not matrix.endswith("key"):
                tensors[block + matrix + ".bias"] = torch.zeros(n).half()
        tensors |= {block + "mlp1.weight": torch.randn(4 * n, n).half(),
                    block + "mlp1.bias": torch.zeros(4 * n).half(),
                    block + "mlp2.weight": torch.randn(n, 4 * n).half(),
                    block + "mlp2.bias": torch.zeros(n).half()}
    tokens = "decoder.token_embedding"
    tensors |= {tokens + ".weight": torch.zeros(n, 4 * n // 32, dtype=torch.int32).view(torch.uint32),
                tokens + ".scales": torch.ones(n, 1).half(),
                tokens + ".biases": torch.ones(n, 1).half()}
    return {"model_type": "whisper", "n_mels": 2, "n_audio_ctx": 1500, "n_audio_state": n,
            "n_audio_head": 1, "n_audio_layer": 1, "n_vocab": n, "n_text_ctx": 16,
            "n_text_state": n, "n_text_head": 1, "n_text_layer": 1,
            "quantization": {"bits": 4, "group_size": 32}}, tensors


def main():
    TYPES[torch.uint32] = "U32"
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    torch.manual_seed(1)
    models = {name: coded(how) for name, how in CODED.items()} | {
        "mlx3": mlx(3, 32, "affine"), "mlx-mxfp8": mlx(8, 32, "mxfp8"),
        "mlx-nvfp4": mlx(4, 16, "nvfp4"), "bitnet": bitnet(), "whisper": whisper()}
    for name, (config, tensors) in models.items():
        text = json.dumps(config, separators=(",", ":")).encode()
        (out / name).write_bytes(text + b"\0" + safetensors(tensors))


if __name__ == "__main__":
    main()
