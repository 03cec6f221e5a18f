#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random models of tests/golden/models and their logits.

Each model is a directory in Hugging Face layout. The weights are in F32, except those of one model
in BF16. Each directory has two more files: tokens.bin (int32), and logits.bin (float32, [tokens,
vocabulary]), which transformers computes in double precision. Weights are random, with a seed for
each model, and large enough that every part of the model affects the logits.

Needs: torch 2.x, transformers 5.x, safetensors, numpy. Run it in this directory:

    python3 make_models.py [NAME…]
"""

import copy
import json
import pathlib
import shutil
import sys

import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MinistralConfig,
                          MinistralForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

N_TOKENS = 40
OUT = pathlib.Path(__file__).resolve().parent / "models"

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


# name: (model class, config, what to do with the files)
MODELS = {
    "llama-gqa": (LlamaForCausalLM, LlamaConfig(
        **SMALL | dict(hidden_size=48, intermediate_size=80, num_attention_heads=6),
        rms_norm_eps=1e-5, rope_parameters=rope("default")), {"sharded": "60KB"}),
    "llama3-scaled": (LlamaForCausalLM, LlamaConfig(
        **SMALL, attention_bias=True, head_dim=16, rope_parameters=rope(
            "llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=16)), {"old_rope": True}),
    "llama-linear": (LlamaForCausalLM, LlamaConfig(
        **SMALL, mlp_bias=True, hidden_act="gelu_pytorch_tanh",
        rope_parameters=rope("linear", factor=4.0)), {"old_rope": True}),
    "llama-yarn": (LlamaForCausalLM, LlamaConfig(
        **SMALL | dict(num_key_value_heads=4), head_dim=16, rope_parameters=rope(
            "yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=4.0,
            beta_slow=0.5)), {}),
    "mistral-window": (MistralForCausalLM, MistralConfig(
        **SMALL, sliding_window=7, rope_parameters=rope("default", 1000000.0)), {}),
    "qwen2-tied": (Qwen2ForCausalLM, Qwen2Config(
        **SMALL | dict(tie_word_embeddings=True), use_sliding_window=False,
        rope_parameters=rope("default", 1000000.0)), {}),
    "qwen2-window-mix": (Qwen2ForCausalLM, Qwen2Config(
        **SMALL | dict(num_hidden_layers=4), use_sliding_window=True, sliding_window=5,
        max_window_layers=2, rope_parameters=rope("default")), {"old_rope": True}),
    "qwen3-norm": (Qwen3ForCausalLM, Qwen3Config(
        **SMALL | dict(num_attention_heads=8), head_dim=16,
        rope_parameters=rope("default", 1000000.0)), {}),
    "qwen3-bf16": (Qwen3ForCausalLM, Qwen3Config(
        **SMALL | dict(tie_word_embeddings=True, num_hidden_layers=3), head_dim=16,
        use_sliding_window=True, sliding_window=6, layer_types=[
            "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=rope("yarn", 10000.0, factor=2.0, attention_factor=1.25,
                             original_max_position_embeddings=24)), {"dtype": torch.bfloat16}),
    # transformers loads a Mistral with layer_types as a Ministral.
    "mistral-mix": (MinistralForCausalLM, MinistralConfig(
        **SMALL | dict(num_hidden_layers=3), head_dim=8, sliding_window=6, layer_types=[
            "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=rope("default")), {"keys": {
            "architectures": ["MistralForCausalLM"], "model_type": "mistral"}}),
    # The configuration says that the head is tied, but the file has a separate head.
    "llama-own-head": (LlamaForCausalLM, LlamaConfig(
        **SMALL, rope_parameters=rope("default")), {"keys": {"tie_word_embeddings": True}}),
}


def fill(model, seed):
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen, dtype=torch.float64)
            if p.dim() > 1:
                p.copy_(noise * (1.5 / p.shape[-1] ** 0.5))
            elif name.endswith("bias"):
                p.copy_(noise * 0.3)
            else:
                p.copy_(1.0 + noise * 0.2)


def use_old_rope(path):
    """Writes the configuration in the form that transformers had before version 5, with the rotary
    base beside "rope_scaling"."""
    config = json.loads(path.read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    if scaling["rope_type"] == "linear":
        scaling["type"] = scaling.pop("rope_type")
    config.pop("layer_types", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_tokenizer(path, n_vocab):
    """Writes the tokenizer that a model needs. Each token is one character, and token 0 is "!"."""
    vocab = {chr(33 + i): i for i in range(n_vocab)}
    model = {"type": "BPE", "dropout": None, "unk_token": None,
             "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "vocab": vocab, "merges": []}
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": model}) + "\n")


def make(name, seed):
    cls, config, how = MODELS[name]
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    fill(model, seed)
    dtype = how.get("dtype", torch.float32)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    # Casts a copy, because casting the model itself would also round the rotary tables.
    copy.deepcopy(model).to(dtype).save_pretrained(out, max_shard_size=how.get("sharded", "5GB"))
    (out / "generation_config.json").unlink(missing_ok=True)
    if how.get("old_rope"):
        use_old_rope(out / "config.json")
    if how.get("keys"):
        path = out / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | how["keys"], indent=2,
                                   sort_keys=True) + "\n")
        # The logits must come from the files as transformers reads them, not from the original
        # model.
        model = AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager").eval()
    write_tokenizer(out / "tokenizer.json", config.vocab_size)
    tokens = torch.randint(0, config.vocab_size, (1, N_TOKENS),
                           generator=torch.Generator().manual_seed(seed + 1000))
    with torch.no_grad():
        logits = model.double()(tokens).logits[0]
    tokens[0].numpy().astype("<i4").tofile(out / "tokens.bin")
    logits.numpy().astype("<f4").tofile(out / "logits.bin")
    print(f"{name}: {sum(f.stat().st_size for f in out.iterdir())} bytes,",
          f"logits {logits.std():.3f}")


def main():
    for seed, name in enumerate(MODELS):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, seed)


if __name__ == "__main__":
    main()
