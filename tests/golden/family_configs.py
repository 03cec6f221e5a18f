# SPDX-License-Identifier: Apache-2.0
"""The configurations of the tiny models that make_families.py makes.

SMALL has one model for each family, small enough for the tree. VARIANTS has one row for each model:
its name is FAMILY-VARIANT, and the row has the class of the configuration, its values, and how the
files differ from what transformers would write:

    "prefix": names of tensors begin with "model.language_model." instead of "model.", and the
              configuration of the text stands in "text_config", as in checkpoints of models that
              also see images.
    "extra":  shapes of tensors that the file has and that the text model does not use.
    "mxfp4":  the experts are stored as MXFP4 codes and scales.
    "ternary": "packed" (four weights in a byte and one scale for each matrix) or "online" (float
              weights, which the model rounds to -1, 0 and 1 itself).
    "coded":  how codes, scales and zeros of matrices are stored (coded_matrices.py).
    "gguf":   False if llama.cpp's converter has no file format for this variant.
"""

VOCAB = 96
BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=1024, tie_word_embeddings=False, bos_token_id=1,
            eos_token_id=2, pad_token_id=0)


def rope(kind="default", theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


YARN = dict(factor=4.0, original_max_position_embeddings=64)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)

DELTA = BASE | dict(
    linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_num_key_heads=2, linear_num_value_heads=4,
    rope_parameters=rope(theta=1e7, partial_rotary_factor=0.25, mrope_interleaved=True,
                         mrope_section=[1, 1, 0]))
MOE = dict(moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3)
SHARED = dict(shared_expert_intermediate_size=48)


def mtp(values):
    """Returns the shapes of the tensors of the layer that predicts a further token."""
    n, head = values["hidden_size"], values["head_dim"]
    q, kv = values["num_attention_heads"] * head, values["num_key_value_heads"] * head
    shapes = {"fc": (n, 2 * n), "norm": (n,), "pre_fc_norm_hidden": (n,),
              "pre_fc_norm_embedding": (n,)} | {f"layers.0.{name}": shape for name, shape in {
        "input_layernorm": (n,), "post_attention_layernorm": (n,), "self_attn.q_proj": (2 * q, n),
        "self_attn.k_proj": (kv, n), "self_attn.v_proj": (kv, n), "self_attn.o_proj": (n, q),
        "self_attn.q_norm": (head,), "self_attn.k_norm": (head,)}.items()}
    ff = values.get("intermediate_size")
    parts = {"": ff}
    if "num_experts" in values:
        experts, width = values["num_experts"], values["moe_intermediate_size"]
        parts = {"shared_expert.": values["shared_expert_intermediate_size"]}
        shapes |= {"layers.0.mlp.gate": (experts, n), "layers.0.mlp.shared_expert_gate": (1, n),
                   "layers.0.mlp.experts.gate_up_proj": (experts, 2 * width, n),
                   "layers.0.mlp.experts.down_proj": (experts, n, width)}
    for part, width in parts.items():
        shapes |= {f"layers.0.mlp.{part}gate_proj": (width, n),
                   f"layers.0.mlp.{part}up_proj": (width, n),
                   f"layers.0.mlp.{part}down_proj": (n, width)}
    return {f"mtp.{name}" + ("" if ".experts." in name else ".weight"): shape
            for name, shape in shapes.items()}


def delta(**more):
    sections = more.pop("sections", None)
    values = DELTA | more
    if sections:
        values["rope_parameters"] = DELTA["rope_parameters"] | dict(mrope_section=sections)
    return values


def dual(swa=10000.0, full=1e6, scaling=None):
    return {"sliding_attention": rope(theta=swa),
            "full_attention": rope("default", full) | (scaling or {})}


def proportional(swa=10000.0, full=1e6):
    return {"sliding_attention": rope(theta=swa),
            "full_attention": rope("proportional", full, partial_rotary_factor=0.25)}


def layers(pattern):
    kinds = dict(s="sliding_attention", f="full_attention", l="linear_attention")
    return [kinds[c] for c in pattern]


GEMMA = BASE | dict(tie_word_embeddings=True, sliding_window=24, query_pre_attn_scalar=16,
                    hidden_activation="gelu_pytorch_tanh", bos_token_id=2, eos_token_id=1)
GEMMA4 = {k: v for k, v in GEMMA.items() if k != "query_pre_attn_scalar"} | dict(
    global_head_dim=32, final_logit_softcapping=30.0, hidden_size_per_layer_input=0,
    vocab_size_per_layer_input=VOCAB, rope_parameters=proportional())
GEMMA3N = {k: v for k, v in GEMMA.items() if k != "query_pre_attn_scalar"} | dict(
    num_hidden_layers=6, intermediate_size=[96] * 6, hidden_size_per_layer_input=16,
    vocab_size_per_layer_input=VOCAB, altup_num_inputs=4, altup_active_idx=0, laurel_rank=8,
    num_kv_shared_layers=2, layer_types=layers("ssfssf"), final_logit_softcapping=30.0,
    activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0, 0.0, 0.0],
    rope_parameters=dual())
OSS = BASE | dict(intermediate_size=64, num_local_experts=8, num_experts_per_tok=4,
                  sliding_window=24, hidden_act="silu",
                  rope_parameters=rope("yarn", 150000.0, factor=32.0, beta_fast=32.0,
                                       beta_slow=1.0, truncate=False,
                                       original_max_position_embeddings=64))
BITNET = BASE | dict(hidden_act="relu2", rope_parameters=rope(theta=500000.0))
BITNET.pop("head_dim")

Q35, Q35M, Q3N = "Qwen3_5TextConfig", "Qwen3_5MoeTextConfig", "Qwen3NextConfig"
NO_DENSE = ("intermediate_size",)


def without(values, *names):
    return {k: v for k, v in values.items() if k not in names}


VARIANTS = {
    # Qwen3.5, 3.6 and 3.8
    "qwen3_5-base": (Q35, delta(), {}),
    "qwen3_5-nested": (Q35, delta(mtp_num_hidden_layers=1),
                       {"prefix": "Qwen3_5ForConditionalGeneration", "extra": mtp(DELTA)}),
    "qwen3_5-tied-64": (Q35, delta(tie_word_embeddings=True, head_dim=64, num_hidden_layers=8,
                                   linear_num_key_heads=4, linear_num_value_heads=4,
                                   sections=[3, 3, 2]), {}),
    "qwen3_5-80": (Q35, delta(head_dim=80, linear_num_key_heads=3, linear_num_value_heads=9,
                              num_attention_heads=5, num_key_value_heads=1,
                              linear_value_head_dim=24, linear_key_head_dim=20,
                              sections=[4, 3, 3]), {}),
    "qwen3_5-96": (Q35, delta(head_dim=96, num_attention_heads=6, num_key_value_heads=3,
                              linear_num_key_heads=2, linear_num_value_heads=8,
                              sections=[4, 4, 4]), {}),
    "qwen3_5-256": (Q35, delta(head_dim=256, num_attention_heads=2, num_key_value_heads=1,
                               linear_num_key_heads=1, linear_num_value_heads=2,
                               linear_key_head_dim=128, linear_value_head_dim=128,
                               sections=[11, 11, 10]), {}),
    "qwen3_5-mix": (Q35, delta(num_hidden_layers=5, layer_types=layers("lflfl")),
                    {"gguf": False}),
    "qwen3_5_moe-base": (Q35M, without(delta(**MOE, **SHARED), *NO_DENSE), {}),
    "qwen3_5_moe-nested": (Q35M, without(delta(**MOE, **SHARED, mtp_num_hidden_layers=1),
                                               *NO_DENSE),
                           {"prefix": "Qwen3_5MoeForConditionalGeneration",
                            "extra": mtp(DELTA | MOE | SHARED)}),
    "qwen3_5_moe-wide": (Q35M, without(delta(
        moe_intermediate_size=24, num_experts=16, num_experts_per_tok=8,
        shared_expert_intermediate_size=40, head_dim=64, num_key_value_heads=1,
        linear_num_key_heads=2, linear_num_value_heads=6, sections=[3, 3, 2],
        tie_word_embeddings=True), *NO_DENSE), {}),
    # Qwen3-Next and Qwen3-Coder-Next
    "qwen3_next-base": (Q3N, delta(**MOE, **SHARED, rope_parameters=rope(
        theta=1e7, partial_rotary_factor=0.25)), {}),
    "qwen3_next-odd": (Q3N, delta(
        **MOE | dict(num_experts_per_tok=2), **SHARED, head_dim=80, num_attention_heads=3,
        num_key_value_heads=1, linear_num_key_heads=3, linear_num_value_heads=6,
        linear_value_head_dim=24, tie_word_embeddings=True, norm_topk_prob=False,
        rope_parameters=rope(theta=1e7, partial_rotary_factor=0.25)), {"gguf": False}),
    "qwen3_next-dense": (Q3N, delta(
        **MOE, **SHARED, mlp_only_layers=[1], rope_parameters=rope(
            theta=1e7, partial_rotary_factor=0.25)), {"gguf": False}),
    # Qwen3-MoE, Qwen2-MoE, Mixtral
    "qwen3_moe-base": ("Qwen3MoeConfig", BASE | MOE | dict(
        norm_topk_prob=True, rope_parameters=rope(theta=1e6)), {}),
    "qwen3_moe-plain": ("Qwen3MoeConfig", BASE | MOE | dict(
        norm_topk_prob=False, head_dim=96, num_attention_heads=3, num_key_value_heads=1,
        tie_word_embeddings=True, rope_parameters=rope(theta=1e6)), {"gguf": False}),
    "qwen3_moe-mixed": ("Qwen3MoeConfig", BASE | MOE | dict(
        norm_topk_prob=True, mlp_only_layers=[0, 2], rope_parameters=rope("yarn", 1e6, **YARN)),
        {"gguf": False}),
    "qwen3_moe-sparse": ("Qwen3MoeConfig", BASE | MOE | dict(
        norm_topk_prob=True, decoder_sparse_step=2, rope_parameters=rope("linear", 1e6,
                                                                        factor=4.0)),
        {"gguf": False}),
    "qwen2_moe-base": ("Qwen2MoeConfig", without(BASE, "head_dim") | MOE | SHARED | dict(
        norm_topk_prob=False, rope_parameters=rope(theta=1e6)), {}),
    "qwen2_moe-norm": ("Qwen2MoeConfig", without(BASE, "head_dim") | MOE | SHARED | dict(
        norm_topk_prob=True, num_attention_heads=2, num_key_value_heads=1, qkv_bias=True,
        tie_word_embeddings=True, rope_parameters=rope("yarn", 1e6, **YARN)), {"gguf": False}),
    "mixtral-base": ("MixtralConfig", BASE | dict(
        num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        rope_parameters=rope(theta=1e6)), {}),
    "mixtral-window": ("MixtralConfig", BASE | dict(
        num_local_experts=5, num_experts_per_tok=3, sliding_window=24, num_attention_heads=3,
        num_key_value_heads=1, head_dim=20, rope_parameters=rope(theta=1e6)),
        {"gguf": False}),
    "mixtral-llama3": ("MixtralConfig", BASE | dict(
        num_local_experts=4, num_experts_per_tok=1, sliding_window=None,
        rope_parameters=rope("llama3", 500000.0, **LLAMA3)), {}),
    # Gemma 2, 3, 3n and 4
    "gemma2-base": ("Gemma2Config", GEMMA | dict(
        attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
        rope_parameters=rope()), {}),
    "gemma2-mix": ("Gemma2Config", GEMMA | dict(
        hidden_size=60, num_hidden_layers=5, layer_types=layers("fsffs"),
        num_attention_heads=3, num_key_value_heads=3, head_dim=80, query_pre_attn_scalar=24,
        attn_logit_softcapping=2.0, final_logit_softcapping=None,
        rope_parameters=rope("linear", factor=2.0)),
        {"gguf": False}),
    "gemma3-base": ("Gemma3TextConfig", GEMMA | dict(
        num_hidden_layers=6, layer_types=layers("sssssf"), rope_parameters=dual()), {}),
    "gemma3-256": ("Gemma3TextConfig", GEMMA | dict(
        num_hidden_layers=6, layer_types=layers("sssssf"), head_dim=256, num_attention_heads=4,
        num_key_value_heads=1, query_pre_attn_scalar=256, rope_parameters=dual()), {}),
    "gemma3-scaled": ("Gemma3TextConfig", GEMMA | dict(
        hidden_size=60, num_hidden_layers=7, layer_types=layers("ssfssff"),
        rope_parameters=dual(scaling=dict(rope_type="linear", factor=8.0)),
        final_logit_softcapping=20.0,
        num_attention_heads=5, num_key_value_heads=1, head_dim=96, query_pre_attn_scalar=24),
        {"gguf": False}),
    "gemma3-nested": ("Gemma3TextConfig", GEMMA | dict(
        num_hidden_layers=6, layer_types=layers("sssssf"), rope_parameters=dual(
            scaling=dict(rope_type="linear", factor=8.0))),
        {"prefix": "Gemma3ForConditionalGeneration"}),
    "gemma3n-base": ("Gemma3nTextConfig", GEMMA3N, {}),
    "gemma3n-mix": ("Gemma3nTextConfig", GEMMA3N | dict(
        hidden_size=60, layer_types=layers("sffssf"), num_attention_heads=3,
        num_key_value_heads=1, head_dim=24,
        altup_correct_scale=False, num_kv_shared_layers=0,
        activation_sparsity_pattern=[0.0] * 6), {"gguf": False}),
    # as E4B is saved: the default pattern, and tokens without an embedding for each layer
    "gemma3n-nested": ("Gemma3nTextConfig", GEMMA3N | dict(
        num_hidden_layers=12, layer_types=layers("ssf" * 4), intermediate_size=[96] * 12,
        num_kv_shared_layers=3, activation_sparsity_pattern=None,
        vocab_size_per_layer_input=VOCAB - 16),
        {"prefix": "Gemma3nForConditionalGeneration", "gguf": False}),
    # E2B and E4B: per-layer inputs, layers that share K and V, wider layers
    "gemma4-e2b": ("Gemma4TextConfig", GEMMA4 | dict(
        num_hidden_layers=6, layer_types=layers("ssfssf"), hidden_size_per_layer_input=16,
        num_kv_shared_layers=3, num_key_value_heads=1, use_double_wide_mlp=True), {}),
    "gemma4-e4b": ("Gemma4TextConfig", GEMMA4 | dict(
        hidden_size=60, num_hidden_layers=8, layer_types=layers("sssfsssf"),
        hidden_size_per_layer_input=8,
        num_kv_shared_layers=2, num_attention_heads=3, num_key_value_heads=1, head_dim=24,
        global_head_dim=80), {}),
    "gemma4-nested": ("Gemma4TextConfig", GEMMA4 | dict(
        num_hidden_layers=6, layer_types=layers("ssfssf"), hidden_size_per_layer_input=16,
        num_kv_shared_layers=3, num_key_value_heads=1, use_double_wide_mlp=True),
        {"prefix": "Gemma4ForConditionalGeneration"}),
    # 31B: keys of global layers are also their values
    "gemma4-31b": ("Gemma4TextConfig", GEMMA4 | dict(
        num_hidden_layers=6, layer_types=layers("sssssf"), attention_k_eq_v=True,
        num_global_key_value_heads=1), {}),
    # 26B-A4B: experts beside a dense layer
    "gemma4-moe": ("Gemma4TextConfig", GEMMA4 | dict(
        num_hidden_layers=6, layer_types=layers("ssfssf"), attention_k_eq_v=True,
        num_global_key_value_heads=1, enable_moe_block=True, num_experts=8, top_k_experts=3,
        moe_intermediate_size=24), {}),
    "gemma4-256": ("Gemma4TextConfig", GEMMA4 | dict(
        num_hidden_layers=3, layer_types=layers("ssf"), head_dim=256, global_head_dim=512,
        num_attention_heads=2, num_key_value_heads=1), {}),
    # gpt-oss
    "gpt_oss-base": ("GptOssConfig", OSS, {}),
    "gpt_oss-mxfp4": ("GptOssConfig", OSS, {"mxfp4": True}),
    "gpt_oss-odd": ("GptOssConfig", OSS | dict(
        num_hidden_layers=5, layer_types=layers("ffssf"), num_attention_heads=6,
        num_key_value_heads=2, head_dim=20, num_local_experts=5, num_experts_per_tok=2,
        rope_parameters=rope(theta=150000.0)), {"gguf": False}),
    # BitNet b1.58
    "bitnet-packed": ("BitNetConfig", BITNET, {"ternary": "packed", "gguf": False}),
    "bitnet-online": ("BitNetConfig", BITNET | dict(num_attention_heads=2, num_key_value_heads=1,
                                                    tie_word_embeddings=True),
                      {"ternary": "online"}),
    "bitnet-plain": ("BitNetConfig", BITNET, {"gguf": False}),
    # Bonsai: Qwen3 with YaRN
    "qwen3-yarn": ("Qwen3Config", BASE | dict(rope_parameters=rope("yarn", 1e6, **YARN)), {}),
    "qwen3-yarn-80": ("Qwen3Config", BASE | dict(
        head_dim=80, num_attention_heads=5, num_key_value_heads=1, tie_word_embeddings=True,
        rope_parameters=rope("yarn", 1e6, **YARN, beta_fast=4.0, beta_slow=0.5)), {}),
    # Products of several pieces. These rows are last because a row's seed is its number.
    "bitnet-wide": ("BitNetConfig", BITNET | dict(
        hidden_size=384, intermediate_size=1060, num_hidden_layers=2), {"ternary": "packed",
                                                                        "gguf": False}),
    "gpt_oss-wide": ("GptOssConfig", OSS | dict(
        hidden_size=288, intermediate_size=608, num_hidden_layers=2, layer_types=layers("sf")),
                     {"mxfp4": True}),
    # BitNet as GGUF files hold it: with silu, and with ternary values in F32.
    "bitnet-silu": ("BitNetConfig", BITNET | dict(hidden_act="silu", tie_word_embeddings=True),
                    {"converted": True}),
}

TINY = dict(vocab_size=64, hidden_size=20, intermediate_size=16, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1)
TINY_MOE = dict(moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2)
TINY_DELTA = TINY | dict(linear_key_head_dim=8, linear_value_head_dim=8,
                         layer_types=layers("lf"), full_attention_interval=2)
TINY_SHARED = dict(shared_expert_intermediate_size=12)
TINY_GEMMA4 = GEMMA4 | TINY | dict(hidden_size=16, vocab_size_per_layer_input=64,
                                   sliding_window=9)

CODED = BASE | TINY | dict(num_hidden_layers=1, hidden_size=64, intermediate_size=96, head_dim=32,
                           num_attention_heads=2, num_key_value_heads=1,
                           rope_parameters=rope(theta=1e6))
CODED_MOE = CODED | dict(moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2,
                         norm_topk_prob=True)
SMALL = {
    "qwen3_5": (Q35, delta(**TINY_DELTA), {"prefix": "Qwen3_5ForConditionalGeneration",
                                           "extra": {"mtp.norm.weight": (20,)}}),
    "qwen3_5_moe": (Q35M, without(delta(**TINY_DELTA, **TINY_MOE, **TINY_SHARED), *NO_DENSE), {}),
    "qwen3_next": (Q3N, delta(**TINY_DELTA, **TINY_MOE, **TINY_SHARED, rope_parameters=rope(
        theta=1e7, partial_rotary_factor=0.25)), {}),
    "qwen3_moe": ("Qwen3MoeConfig", BASE | TINY | TINY_MOE | dict(
        norm_topk_prob=True, rope_parameters=rope(theta=1e6)), {}),
    "qwen2_moe": ("Qwen2MoeConfig", without(BASE, "head_dim") | TINY | TINY_MOE | TINY_SHARED
                  | dict(norm_topk_prob=False, rope_parameters=rope(theta=1e6)), {}),
    "mixtral": ("MixtralConfig", BASE | TINY | dict(
        intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        rope_parameters=rope(theta=1e6)), {}),
    "gemma2": ("Gemma2Config", GEMMA | TINY | dict(
        sliding_window=9, attn_logit_softcapping=5.0, final_logit_softcapping=3.0,
        rope_parameters=rope()), {}),
    "gemma3": ("Gemma3TextConfig", GEMMA | TINY | dict(
        hidden_size=16, num_hidden_layers=6, layer_types=layers("sssssf"), head_dim=8,
        query_pre_attn_scalar=8, sliding_window=9, rope_parameters=dual()), {}),
    "gemma3n": ("Gemma3nTextConfig", GEMMA3N | TINY | dict(
        hidden_size=16, vocab_size_per_layer_input=64, num_hidden_layers=4,
        layer_types=layers("sfsf"), intermediate_size=[16] * 4, hidden_size_per_layer_input=8,
        laurel_rank=4, num_kv_shared_layers=2, sliding_window=9,
        activation_sparsity_pattern=[0.95, 0.0, 0.0, 0.0]), {}),
    "gemma4": ("Gemma4TextConfig", TINY_GEMMA4 | dict(
        num_hidden_layers=4, layer_types=layers("sfsf"), hidden_size_per_layer_input=8,
        num_kv_shared_layers=2, use_double_wide_mlp=True),
        {"prefix": "Gemma4ForConditionalGeneration"}),
    "gemma4-keys": ("Gemma4TextConfig", TINY_GEMMA4 | dict(
        num_hidden_layers=3, layer_types=layers("ssf"), num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True), {}),
    "gemma4-moe": ("Gemma4TextConfig", TINY_GEMMA4 | dict(
        num_hidden_layers=2, layer_types=layers("sf"), attention_k_eq_v=True,
        num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2,
        moe_intermediate_size=8), {}),
    "gpt_oss": ("GptOssConfig", OSS | TINY | dict(
        hidden_size=32, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=9), {"mxfp4": True}),
    "bitnet": ("BitNetConfig", BITNET | TINY | dict(hidden_size=32, intermediate_size=48),
               {"ternary": "packed", "gguf": False}),
    "qwen3-yarn": ("Qwen3Config", BASE | TINY | dict(
        rope_parameters=rope("yarn", 1e6, factor=4.0, original_max_position_embeddings=16)), {}),
    "gpt_oss-plain": ("GptOssConfig", OSS | TINY | dict(
        hidden_size=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=9), {}),
    "bitnet-plain": ("BitNetConfig", BITNET | TINY, {"gguf": False}),
    "mlx2": ("Qwen3Config", BASE | TINY | dict(
        num_hidden_layers=1, hidden_size=256, intermediate_size=128, head_dim=64,
        rope_parameters=rope(theta=1e6)),
             {"mlx": (2, 128), "gguf": False}),
    "bitnet-silu": ("BitNetConfig", BITNET | TINY | dict(hidden_act="silu",
                                                         tie_word_embeddings=True),
                    {"converted": True}),
    "gptq4": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="gptq", bits=4, group=32, order=True)}),
    "gptq3": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="gptq", bits=3, v2=True)}),
    "gptq8": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="gptq", bits=8, group=32)}),
    "awq4": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="awq", bits=4, group=16)}),
    "ct4": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="compressed-tensors", bits=4, group=32, order=True)}),
    "ct8": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="compressed-tensors", bits=8, group=32)}),
    "fp8": ("Qwen3Config", CODED | dict(hidden_size=128, intermediate_size=256,
                                   num_attention_heads=4, num_key_value_heads=4),
            {"gguf": False, "coded": dict(method="fp8")}),
    "ctfp4": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(method="nvfp4")}),
    "nf4": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(method="bitsandbytes")}),
    "gptq4-moe": ("Qwen3MoeConfig", CODED_MOE, {"gguf": False, "coded": dict(
        method="gptq", bits=4, group=32)}),
    "awq4-moe": ("Qwen3MoeConfig", CODED_MOE, {"gguf": False, "coded": dict(
        method="awq", bits=4, group=32)}),
    "paro": ("Qwen3Config", CODED, {"gguf": False, "coded": dict(
        method="paroquant", bits=4, group=32, rounds=8)}),
    "paro-moe": ("Qwen3MoeConfig", CODED_MOE, {"gguf": False, "coded": dict(
        method="paroquant", bits=4, group=32, rounds=3)}),
    "qwen3_5-mtp": (Q35, delta(**TINY_DELTA, mtp_num_hidden_layers=1), {
        "prefix": "Qwen3_5ForConditionalGeneration", "extra": mtp(DELTA | TINY_DELTA)}),
    "qwen3_5_moe-mtp": (Q35M, without(delta(**TINY_DELTA, **TINY_MOE, **TINY_SHARED,
                                            mtp_num_hidden_layers=1), *NO_DENSE), {
        "prefix": "Qwen3_5MoeForConditionalGeneration",
        "extra": mtp(DELTA | TINY_DELTA | TINY_MOE | TINY_SHARED)}),
}
