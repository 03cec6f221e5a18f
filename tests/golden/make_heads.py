#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random draft heads of EAGLE-3 and what they compute for models of make_models.py.

    python3 make_heads.py [--llama-cpp DIRECTORY]

A head models/eagle3-NAME is a directory in the layout of published heads, with two more files:
predicted.bin, [tokens - 1, tokens of the head] float32: row p has the logits for token p + 2, computed
from the embedding of token p + 1 and the hidden states of token p; and own.bin, [tokens - 1, width],
the residual stream before the last norm. The formulas are those of the paper (Li et al. 2025,
"EAGLE-3"), in double precision; transformers computes only the hidden states of the model. With
--llama-cpp, its converter makes models/eagle3-NAME.gguf. Needs what make_families.py needs.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from make_families import convert, write_sentencepiece

MODELS = pathlib.Path(__file__).resolve().parent / "models"

# name: the model, its layers whose inputs the head reads, the tokens of the head, keys of config.json.
HEADS = {
    "eagle3-llama": ("llama-gqa", [0, 1, 1], 40, {}),
    "eagle3-qwen3": ("qwen3-norm", [0, 1, 1], 64, {"norm_before_residual": True, "own": True}),
}


def draw(shapes, gen):
    return {name: torch.randn(shape, generator=gen, dtype=torch.float64) *
            (1.5 / shape[-1] ** 0.5) if len(shape) > 1 else
            1 + 0.2 * torch.randn(shape, generator=gen, dtype=torch.float64)
            for name, shape in shapes.items()}


def norm(x, w, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w


def rotate(x, theta):
    """Rotates the heads x [tokens, heads, size]; token p is at position p."""
    n, _, size = x.shape
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(0, size, 2) / size)[None]
    cos, sin = torch.cat([angle.cos()] * 2, -1)[:, None], torch.cat([angle.sin()] * 2, -1)[:, None]
    half = torch.cat([-x[..., size // 2:], x[..., :size // 2]], -1)
    return x * cos + half * sin


def predict(t, config, embedding, features, tokens):
    """Returns the logits and the residual stream of the head with the tensors @t."""
    eps, n_heads, n_kv = (config[k] for k in ("rms_norm_eps", "num_attention_heads",
                                              "num_key_value_heads"))
    size, n = config["head_dim"], len(tokens) - 1
    g = features[:-1] @ t["fc.weight"].T
    e = norm(embedding[tokens[1:]], t["midlayer.input_layernorm.weight"], eps)
    h = norm(g, t["midlayer.hidden_norm.weight"], eps)
    x = torch.cat([e, h], -1)
    q, k, v = ((x @ t[f"midlayer.self_attn.{part}_proj.weight"].T).view(n, -1, size) for part in "qkv")
    q, k = rotate(q, config["rope_theta"]), rotate(k, config["rope_theta"])
    k, v = (y.repeat_interleave(n_heads // n_kv, 1) for y in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) / size ** 0.5
    scores = (scores + torch.full((n, n), float("-inf")).triu(1)).softmax(-1)
    y = torch.einsum("hij,jhd->ihd", scores, v).reshape(n, -1)
    x = (h if config.get("norm_before_residual") else g) + y @ t["midlayer.self_attn.o_proj.weight"].T
    y = norm(x, t["midlayer.post_attention_layernorm.weight"], eps)
    gate, up = (y @ t[f"midlayer.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
    x = x + (torch.nn.functional.silu(gate) * up) @ t["midlayer.mlp.down_proj.weight"].T
    return norm(x, t["norm.weight"], eps) @ t["lm_head.weight"].T, x


def make(name, seed):
    target, taps, n_vocab, more = HEADS[name]
    own = more.get("own", False)
    gen = torch.Generator().manual_seed(seed)
    out = MODELS / name
    source = json.loads((MODELS / target / "config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(MODELS / target, attn_implementation="eager",
                                                 dtype=torch.float64).eval()
    tokens = torch.from_numpy(np.fromfile(MODELS / target / "tokens.bin", dtype="<i4").astype("i8"))
    with torch.no_grad():
        hidden = model(tokens[None], output_hidden_states=True).hidden_states
    features = torch.cat([hidden[i][0] for i in taps], -1)
    wide, all_tokens = source["hidden_size"], source["vocab_size"]
    width = wide + 16 if own else wide
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
              "hidden_size": width, "intermediate_size": 56, "num_hidden_layers": 1,
              "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
              "vocab_size": all_tokens, "draft_vocab_size": n_vocab, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 64, "hidden_act": "silu", "rope_theta": 10000.0,
              "tie_word_embeddings": False, "target_hidden_size": wide,
              "eagle_config": {"eagle_aux_hidden_state_layer_ids": taps},
              "eagle_aux_hidden_state_layer_ids": taps}
    config |= {k: v for k, v in more.items() if k != "own"}
    q, kv, ff = 6 * 8, 2 * 8, 56
    t = draw({"fc.weight": (width, 3 * wide), "midlayer.input_layernorm.weight": (width,),
              "midlayer.hidden_norm.weight": (width,), "midlayer.self_attn.q_proj.weight": (q, 2 * width),
              "midlayer.self_attn.k_proj.weight": (kv, 2 * width),
              "midlayer.self_attn.v_proj.weight": (kv, 2 * width),
              "midlayer.self_attn.o_proj.weight": (width, q),
              "midlayer.post_attention_layernorm.weight": (width,),
              "midlayer.mlp.gate_proj.weight": (ff, width), "midlayer.mlp.up_proj.weight": (ff, width),
              "midlayer.mlp.down_proj.weight": (width, ff), "norm.weight": (width,),
              "lm_head.weight": (n_vocab, width),
              **({"embed_tokens.weight": (all_tokens, width)} if own else {})}, gen)
    t = {k: v.float() for k, v in t.items()}
    chosen = torch.randperm(all_tokens, generator=gen)[:n_vocab].sort().values
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    save_file(t | {"d2t": chosen - torch.arange(n_vocab),
                   "t2d": torch.isin(torch.arange(all_tokens), chosen)},
              out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    t = {k: v.double() for k, v in t.items()}
    embedding = t.get("embed_tokens.weight", model.get_input_embeddings().weight.detach())
    logits, x = predict(t, config, embedding, features, tokens)
    logits.numpy().astype("<f4").tofile(out / "predicted.bin")
    x.numpy().astype("<f4").tofile(out / "own.bin")
    print(f"{name}: logits {float(logits.std()):.3f}")
    return target, all_tokens


def make_all(description, heads, make, write_tokenizers):
    """Makes the heads; @make(name, seed) returns the target and its number of tokens. With the option
    --llama-cpp, also converts each head to GGUF. @write_tokenizers(directory, tokens) writes the
    tokenizers that the converter needs."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--llama-cpp", type=pathlib.Path)
    llama_cpp = p.parse_args().llama_cpp
    jobs = []
    transformers.logging.set_verbosity_error()
    for seed, name in enumerate(heads):
        target, n_vocab = make(name, seed)
        if not llama_cpp:
            continue
        for what in (name, target):
            copy = MODELS / f"{name}-{what}.source"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(MODELS / what, copy)
            write_tokenizers(copy, n_vocab)
        jobs.append([str(MODELS / f"{name}-{name}.source"), "--outfile", str(MODELS / f"{name}.gguf"),
                     "--outtype", "f32", "--model-name", "tiny", "--target-model-dir",
                     str(MODELS / f"{name}-{target}.source")])
    if jobs:
        convert(llama_cpp, jobs)
    for path in MODELS.glob("*.source"):
        shutil.rmtree(path)


if __name__ == "__main__":
    make_all("tiny draft heads", HEADS, make, write_sentencepiece)
