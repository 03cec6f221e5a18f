#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random models in the form of mlx-community, and what mlx-lm computes with them.

mlx-lm builds, quantizes and saves each model of MODELS as its converter does: matrices in a format
of mlx, other tensors in BF16. The logits are those of mlx-lm on the CPU with all numbers of the
saved model in F32. Each model becomes a directory in the layout of tests/golden/models:

    OUT/NAME        the model with tokens.bin (int32), logits.bin (float32, [tokens, vocabulary])
                    and greedy.bin (int32: the tokens that follow if the model always takes the
                    most likely one)

With --family, it also becomes a directory that family-eval reads:

    OUT/NAME/hf, OUT/NAME/tokens.json, OUT/NAME/logits.f64.npy

Needs: mlx[cpu] 0.32, mlx-lm 0.32, numpy. Example:

    python3 make_mlx.py --out models [NAME…]
"""

import argparse
import importlib
import json
import pathlib
import shutil

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_map_with_path, tree_unflatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import quantize_model, save_config, save_model

N_TOKENS, N_GREEDY, VOCAB = 48, 12, 64
HERE = pathlib.Path(__file__).parent

BASE = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
        "rms_norm_eps": 1e-5, "vocab_size": VOCAB, "max_position_embeddings": 512,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_act": "silu"}
LLAMA = BASE | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 1e4,
                "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}
QWEN3 = BASE | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rope_theta": 1e6,
                "attention_bias": False, "use_sliding_window": False}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
QWEN3_MOE = QWEN3 | EXPERTS | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "decoder_sparse_step": 1,
    "mlp_only_layers": [], "norm_topk_prob": True, "tie_word_embeddings": False}
FEW = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32}
DELTA = BASE | {
    "head_dim": 16, "model_type": "qwen3_5_moe_text", "full_attention_interval": 2,
    "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 1,
    "linear_num_value_heads": 2, "shared_expert_intermediate_size": 32,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                        "mrope_section": [1, 1, 0]}}
QWEN3_5 = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
           "tie_word_embeddings": True, "text_config": DELTA | FEW}
QWEN3_NEXT = DELTA | EXPERTS | {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "rope_theta": 1e7,
    "partial_rotary_factor": 0.25, "rope_parameters": None, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "norm_topk_prob": True, "tie_word_embeddings": False}


def gemma4(experts, heads, **more):
    return {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
            "vocab_size": VOCAB, "text_config": BASE | experts | {
                "model_type": "gemma4_text", "hidden_activation": "gelu_pytorch_tanh",
                "top_k_experts": experts["num_experts_per_tok"], "enable_moe_block": True,
                "intermediate_size": 32, "global_head_dim": 64, "num_attention_heads": heads,
                "num_key_value_heads": 1, "num_global_key_value_heads": 1,
                "attention_k_eq_v": True, "sliding_window": 9,
                "layer_types": ["sliding_attention", "full_attention"],
                "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
                "use_double_wide_mlp": False, "vocab_size_per_layer_input": VOCAB,
                "rope_parameters": {
                    "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                                       "partial_rotary_factor": 0.25},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}} | more}


# E2B: embeddings for each layer, layers that share keys and values, no experts
GEMMA4_E2B = gemma4(EXPERTS, 2, enable_moe_block=False, num_experts=None, top_k_experts=None,
                    moe_intermediate_size=None, num_hidden_layers=4, intermediate_size=64,
                    layer_types=["sliding_attention", "full_attention"] * 2,
                    hidden_size_per_layer_input=32, num_kv_shared_layers=2,
                    use_double_wide_mlp=True, attention_k_eq_v=False,
                    num_global_key_value_heads=None)

OSS = BASE | {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
              "num_local_experts": 4, "num_experts_per_tok": 2,
              "tie_word_embeddings": False, "attention_bias": True, "sliding_window": 9,
              "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 150000,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                               "beta_slow": 1.0, "original_max_position_embeddings": 64}}
EXPERTS_FP4 = {f"model.layers.{i}.mlp.experts.{matrix}_proj": {
    "group_size": 32, "bits": 4, "mode": "mxfp4"} for i in range(2)
    for matrix in ("gate", "up", "down")}
GEMMA3N = {"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n",
           "text_config": BASE | {
               "model_type": "gemma3n_text", "hidden_activation": "gelu_pytorch_tanh",
               "num_hidden_layers": 4, "intermediate_size": [64] * 4, "num_attention_heads": 2,
               "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 9,
               "num_kv_shared_layers": 2, "vocab_size_per_layer_input": VOCAB,
               "hidden_size_per_layer_input": 32, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
               "final_logit_softcapping": 30.0, "altup_num_inputs": 4, "altup_coef_clip": 120.0,
               "altup_correct_scale": True, "altup_active_idx": 0, "laurel_rank": 32,
               "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0]}}


# The configuration, then the arguments of quantize_model(), then overrides for single matrices.
MODELS = {
    "mlx-llama-4bit": (LLAMA, (64, 4, "affine"), {}),
    "mlx-llama-5bit": (LLAMA, (32, 5, "affine"), {}),
    "mlx-llama-nvfp4": (LLAMA, (16, 4, "nvfp4"), {}),
    "mlx-llama-mxfp4": (LLAMA, (32, 4, "mxfp4"), {}),
    "mlx-qwen3-4bit": (QWEN3, (64, 4, "affine"), {}),
    "mlx-qwen3-6bit": (QWEN3, (32, 6, "affine"),
                       {"model.layers.1.mlp.down_proj": {"group_size": 64, "bits": 2},
                        "model.layers.0.self_attn.q_proj": False}),
    # Qwen3-Embedding-0.6B-8bit
    "mlx-qwen3-8bit": (QWEN3, (64, 8, "affine"), {}),
    "mlx-qwen3_moe-4bit": (QWEN3_MOE, (32, 4, "affine"), {}),
    # Qwen3.6-35B-A3B-8bit
    "mlx-qwen3_5_moe-8bit": (QWEN3_5, (32, 8, "affine"), {}),
    # gemma-4-26b-a4b-it-3bit and -mxfp8
    "mlx-gemma4-3bit": (gemma4(EXPERTS, 2), (32, 3, "affine"), {}),
    "mlx-gemma4-mxfp8": (gemma4(FEW, 1), (32, 8, "mxfp8"), {}),
    "mlx-gemma4-e2b-4bit": (GEMMA4_E2B, (32, 4, "affine"), {}),
    # gpt-oss-20b-MXFP4-Q8: only the experts are MXFP4
    "mlx-gpt_oss-mxfp4": (OSS, (64, 8, "affine"), EXPERTS_FP4),
    "mlx-gpt_oss-4bit": (OSS, (32, 4, "affine"), {}),
    # gemma-3n-E2B-it-lm-4bit
    "mlx-gemma3n-4bit": (GEMMA3N, (32, 4, "affine"), {}),
}


def draw(path, x):
    """Draws a tensor: norms near 1, A_log as in real models, and the rest of a size that keeps
    values in range."""
    if path.endswith("A_log"):
        return mx.log(mx.random.uniform(1, 8, x.shape)).astype(mx.float32)
    if path.endswith(("dt_bias", "layer_scalar", "per_expert_scale")) or x.ndim == 1:
        return (1 + 0.1 * mx.random.normal(x.shape)).astype(mx.bfloat16)
    return (mx.random.normal(x.shape) * 1.5 / x.shape[-1] ** 0.5).astype(mx.bfloat16)


def build(config, how, overrides):
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(json.loads(json.dumps(config))))
    model.eval()
    model.update(tree_map_with_path(draw, model.parameters()))
    own = getattr(model, "quant_predicate", None)

    def predicate(path, layer):
        if path in overrides:
            return overrides[path]
        return own(path, layer) if own else True
    return quantize_model(model, dict(config), *how, quant_predicate=predicate)


def logits_of(model, tokens):
    """Computes the logits with a cache, without which layers that share keys and values would
    compute their own."""
    logits = model(mx.array([tokens]), cache=make_prompt_cache(model))
    return np.array(logits.astype(mx.float32)[0])


def greedy_tokens(model, tokens):
    made, least = [], float("inf")
    for _ in range(N_GREEDY):
        last = logits_of(model, tokens + made)[-1]
        first, second = np.argsort(last)[-2:][::-1]
        made.append(int(first))
        least = min(least, float(last[first] - last[second]))
    return made, least


def in_float(x):
    return x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x


def make(name, root, family):
    config, how, overrides = MODELS[name]
    for seed in range(1, 1000):
        mx.random.seed(seed)
        tokens = [int(t) for t in mx.random.randint(3, VOCAB, (N_TOKENS,))]
        model, new = build(config, how, overrides)
        saved = tree_flatten(model.parameters())
        model.update(tree_map(in_float, model.parameters()))
        made, least = greedy_tokens(model, tokens)
        if least > 0.02:
            break
    want = logits_of(model, tokens)
    model.update(tree_unflatten(saved))
    out = root / name
    shutil.rmtree(out, ignore_errors=True)
    hf = out / "hf" if family else out
    save_model(hf, model)
    (hf / "model.safetensors.index.json").unlink()
    save_config(new, hf / "config.json")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(HERE / "models" / "mlx2" / file, hf)
    if family:
        (out / "tokens.json").write_text(json.dumps(tokens) + "\n")
        np.save(out / "logits.f64.npy", want.astype("f8"))
    else:
        np.array(tokens, dtype="<i4").tofile(out / "tokens.bin")
        np.array(made, dtype="<i4").tofile(out / "greedy.bin")
        want.astype("<f4").tofile(out / "logits.bin")
    size = sum(f.stat().st_size for f in hf.iterdir())
    print(f"{name}: {size} bytes, seed {seed}, logits {want.std():.3f}, distance {least:.3f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--family", action="store_true")
    parser.add_argument("names", nargs="*", help="beginnings of names")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    for name in MODELS:
        if not args.names or name.startswith(tuple(args.names)):
            make(name, args.out, args.family)


if __name__ == "__main__":
    main()
