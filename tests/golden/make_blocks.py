#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random draft heads of DFlash and what they compute for models of make_models.py and
make_families.py.

    python3 make_blocks.py [--llama-cpp DIRECTORY]

A head models/dflash-NAME is a directory in the layout of published heads, with two more files:
blocks.bin, [blocks, 2] int32: the position of the first token of a block, and the rows of the block;
and drafted.bin, float32: for each block the logits [rows - 1, tokens] of its masks. The block begins with
a token of tokens.bin of the model, and reads the hidden states of the tokens before it. The formulas are
those of the paper (Chen et al. 2026, "DFlash"), in double precision; transformers computes the hidden
states, the embedding and the head of the model, and the frequencies of the rotation. With --llama-cpp,
its converter makes models/dflash-NAME.gguf. Needs what make_families.py needs.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from make_families import write_sentencepiece, write_tokenizer
from make_heads import draw, make_all, norm

MODELS = pathlib.Path(__file__).resolve().parent / "models"
YARN = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 16}

# name: the model, the layers whose results the head reads, the size of a block, and keys of config.json.
HEADS = {
    "dflash-qwen2": ("qwen2-window-mix", [0, 1, 2], 8, {"rope_scaling": YARN}),
    "dflash-gemma3": ("gemma3", [0, 2, 2, 4, 1], 6, {
        "use_sliding_window": True, "sliding_window": 11,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "dflash-qwen3_5": ("qwen3_5", [0], 16, {}),
}


def frequencies(config):
    """Returns the frequencies of the rotation and the factor of its sines."""
    kind = config.get("rope_scaling") or {"rope_type": "default"}
    own = Qwen3Config(head_dim=config["head_dim"], hidden_size=config["hidden_size"],
                      num_attention_heads=config["num_attention_heads"],
                      max_position_embeddings=config["max_position_embeddings"],
                      rope_parameters=kind | {"rope_theta": config["rope_theta"]})
    if kind["rope_type"] == "default":
        size = config["head_dim"]
        return config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size), 1.0
    inverse, factor = ROPE_INIT_FUNCTIONS[kind["rope_type"]](own, "cpu")
    return inverse.double(), factor


def rotate(x, first, inverse, factor):
    """Rotates the heads x [rows, heads, size]; row i is at position first + i."""
    angle = torch.arange(first, first + len(x), dtype=torch.float64)[:, None] * inverse[None]
    cos, sin = (torch.cat([f(angle) * factor] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def draft(t, config, features, x):
    """Returns the rows x [rows, width] of a block after all layers and the last norm. features
    [tokens, ids × width]: the hidden states of the tokens before the block."""
    eps, n_heads, n_kv, size = (config[k] for k in ("rms_norm_eps", "num_attention_heads",
                                                    "num_key_value_heads", "head_dim"))
    n, first = len(x), len(features)
    turn = frequencies(config)
    context = norm(features @ t["fc.weight"].T, t["hidden_norm.weight"], eps)
    for i in range(config["num_hidden_layers"]):
        w = {k.removeprefix(f"layers.{i}."): v for k, v in t.items()}
        h = norm(x, w["input_layernorm.weight"], eps)
        both = torch.cat([context, h])
        q = (h @ w["self_attn.q_proj.weight"].T).view(n, n_heads, size)
        k, v = ((both @ w[f"self_attn.{p}_proj.weight"].T).view(first + n, n_kv, size) for p in "kv")
        q = rotate(norm(q, w["self_attn.q_norm.weight"], eps), first, *turn)
        k = rotate(norm(k, w["self_attn.k_norm.weight"], eps), 0, *turn)
        k, v = (y.repeat_interleave(n_heads // n_kv, 1) for y in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / size ** 0.5
        if config["layer_types"][i] == "sliding_attention":
            distance = first + torch.arange(n)[:, None] - torch.arange(first + n)[None]
            scores = scores.masked_fill(distance >= config["sliding_window"], float("-inf"))
        y = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(n, -1)
        x = x + y @ w["self_attn.o_proj.weight"].T
        h = norm(x, w["post_attention_layernorm.weight"], eps)
        gate, up = (h @ w[f"mlp.{p}_proj.weight"].T for p in ("gate", "up"))
        x = x + (torch.nn.functional.silu(gate) * up) @ w["mlp.down_proj.weight"].T
    return norm(x, t["norm.weight"], eps)


def shapes(config, n_ids):
    width, ff, size = (config[k] for k in ("hidden_size", "intermediate_size", "head_dim"))
    q, kv = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    layer = {"input_layernorm": (width,), "post_attention_layernorm": (width,),
             "self_attn.q_proj": (q, width), "self_attn.k_proj": (kv, width),
             "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, q),
             "self_attn.q_norm": (size,), "self_attn.k_norm": (size,),
             "mlp.gate_proj": (ff, width), "mlp.up_proj": (ff, width), "mlp.down_proj": (width, ff)}
    return {"fc.weight": (width, n_ids * width), "hidden_norm.weight": (width,), "norm.weight": (width,),
            **{f"layers.{i}.{k}.weight": v for i in range(config["num_hidden_layers"])
               for k, v in layer.items()}}


def make(name, seed):
    target, ids, block, more = HEADS[name]
    gen = torch.Generator().manual_seed(100 + seed)
    out = MODELS / name
    model = AutoModelForCausalLM.from_pretrained(MODELS / target, attn_implementation="eager",
                                                 dtype=torch.float64).eval()
    tokens = torch.from_numpy(np.fromfile(MODELS / target / "tokens.bin", dtype="<i4").astype("i8"))
    width, n_vocab = model.config.hidden_size, model.config.vocab_size
    config = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": block,
              "dflash_config": {"mask_token_id": n_vocab - 3, "target_layer_ids": ids},
              "hidden_size": width, "intermediate_size": 56, "num_hidden_layers": 3,
              "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
              "vocab_size": n_vocab, "rms_norm_eps": 1e-6, "max_position_embeddings": 1024,
              "hidden_act": "silu", "rope_theta": 1000000.0, "rope_scaling": None,
              "attention_bias": False, "tie_word_embeddings": False, "use_sliding_window": False,
              "sliding_window": None, "layer_types": ["full_attention"] * 3, "max_window_layers": 3,
              "num_target_layers": model.config.num_hidden_layers} | more
    t = {k: v.float() for k, v in draw(shapes(config, len(ids)), gen).items()}
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    save_file(t, out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    t = {k: v.double() for k, v in t.items()}
    n = len(tokens)
    blocks = [(1, block), (9, 3), (n // 2, block), (n - 1, 2), (n - 3, block - 1)]
    with torch.no_grad():
        hidden = model(tokens[None], output_hidden_states=True).hidden_states
        features = torch.cat([hidden[i + 1][0] for i in ids], -1)
        logits = []
        for first, rows in blocks:
            own = torch.tensor([tokens[first]] + [n_vocab - 3] * (rows - 1))
            x = draft(t, config, features[:first], model.get_input_embeddings()(own))
            logits.append(model.get_output_embeddings()(x[1:]))
    logits = torch.cat(logits)
    np.array(blocks, "<i4").tofile(out / "blocks.bin")
    logits.numpy().astype("<f4").tofile(out / "drafted.bin")
    print(f"{name}: logits {float(logits.std()):.3f}")
    return target, n_vocab


def write_tokenizers(directory, n_vocab):
    write_sentencepiece(directory, n_vocab)
    write_tokenizer(directory, n_vocab)


if __name__ == "__main__":
    make_all("tiny draft heads that draft blocks", HEADS, make, write_tokenizers)
