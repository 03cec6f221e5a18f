/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes gpt-oss (OpenAI 2025): 20B and 120B.
 *
 * All layers have experts, and every second layer has a window. All products of a layer have
 * biases. Each head has a sink: a logit that takes part in the softmax but has no value. The router
 * selects experts by their scores, and then applies the softmax to the selected scores only. The
 * ramp of YaRN is not rounded to whole pairs. GGUF files have no key for this, so gpt_oss_finish()
 * sets it for them.
 */
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {{"gpt-oss", ROPE_HALF}};

static const struct arch_window window = {.absent = 128, .every = 2};

static const struct arch_class classes[] = {
    {"GptOssForCausalLM", "gpt_oss", .n_kv_heads = 8, .head_dim = 64, .n_ctx = 131072,
     .theta = 150000, .flags = CLASS_ATTENTION_BIAS | CLASS_MXFP4, .window = &window},
};

static const struct arch_field fields[] = {
    {FIELD(experts.n), FIELD_COUNT, "expert_count", "num_local_experts", .absent = 128,
     .flags = FIELD_IN_GGUF},
    {FIELD(experts.n_used), FIELD_COUNT, "expert_used_count", "num_experts_per_tok", .absent = 4,
     .flags = FIELD_IN_GGUF},
    {FIELD(experts.ff), FIELD_COUNT, "expert_feed_forward_length", "intermediate_size",
     .absent = 2880},
};

static const struct arch_refused refused[] = {{"expert_gating_func", 3}};

static const struct arch_refused refused_hf[] = {{"swiglu_limit", 7}, {"swiglu_alpha", 1.702}};

/* Experts as GGUF files and mlx-lm store them. bind_interleaved() binds the experts of other
 * files. */
#define GPT_OSS_EXPERTS(id, gguf, hf, hf_2, rows, cols)                                            \
    {                                                                                              \
        id, gguf, hf, hf_2, rows, cols, DIM_EXPERTS, SLOT_OPTIONAL                                 \
    }
/* A tensor of Hugging Face that bind_interleaved() looks for. */
#define GPT_OSS_NAME(name, hf)                                                                     \
    {                                                                                              \
        SLOT_ABSENT, name, hf, NULL, DIM_NONE, DIM_NONE                                            \
    }

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    SLOTS_ATTENTION,
    SLOTS_QKV_BIAS(0),
    {SLOT_OUT_BIAS, "attn_output.bias", "self_attn.o_proj.bias", NULL, DIM_1, DIM_EMBD},
    {SLOT_SINKS, "attn_sinks.weight", "self_attn.sinks", NULL, DIM_1, DIM_HEADS},
    {SLOT_FFN_NORM, "post_attention_norm.weight", "post_attention_layernorm.weight", NULL, DIM_1,
     DIM_EMBD},
    {SLOT_ROUTER, "ffn_gate_inp.weight", "mlp.router.weight", NULL, DIM_EXPERTS, DIM_EMBD},
    {SLOT_ROUTER_BIAS, "ffn_gate_inp.bias", "mlp.router.bias", NULL, DIM_1, DIM_EXPERTS},
    GPT_OSS_EXPERTS(SLOT_GATE_EXPERTS, "ffn_gate_exps.weight", "mlp.experts.gate_proj.weight", NULL,
                    DIM_EXPERT_FF, DIM_EMBD),
    GPT_OSS_EXPERTS(SLOT_GATE_EXPERTS_BIAS, "ffn_gate_exps.bias", "mlp.experts.gate_proj.bias",
                    NULL, DIM_1, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_UP_EXPERTS, "ffn_up_exps.weight", "mlp.experts.up_proj.weight", NULL,
                    DIM_EXPERT_FF, DIM_EMBD),
    GPT_OSS_EXPERTS(SLOT_UP_EXPERTS_BIAS, "ffn_up_exps.bias", "mlp.experts.up_proj.bias", NULL,
                    DIM_1, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_DOWN_EXPERTS, "ffn_down_exps.weight", "mlp.experts.down_proj.weight", NULL,
                    DIM_EMBD, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_DOWN_EXPERTS_BIAS, "ffn_down_exps.bias", "mlp.experts.down_proj_bias",
                    "mlp.experts.down_proj.bias", DIM_1, DIM_EMBD),
    GPT_OSS_NAME("ffn_gate_up_exps.transposed", "mlp.experts.gate_up_proj"),
    GPT_OSS_NAME("ffn_gate_up_exps.blocks", "mlp.experts.gate_up_proj_blocks"),
    GPT_OSS_NAME("ffn_gate_up_exps.scales", "mlp.experts.gate_up_proj_scales"),
    GPT_OSS_NAME("ffn_gate_up_exps.bias", "mlp.experts.gate_up_proj_bias"),
    GPT_OSS_NAME("ffn_down_exps.transposed", "mlp.experts.down_proj"),
    GPT_OSS_NAME("ffn_down_exps.blocks", "mlp.experts.down_proj_blocks"),
    GPT_OSS_NAME("ffn_down_exps.scales", "mlp.experts.down_proj_scales"),
};

static int gpt_oss_finish(struct hparams *hp, enum arch_source source,
                          struct inf_err *reterr UNUSED)
{
    hp->act = GRAPH_ACT_SWIGLU_LIMITED;
    hp->experts.score = ROUTE_SOFTMAX_SELECTED;
    hp->yarn_no_truncate |= source == ARCH_GGUF;
    return 0;
}

const struct arch arch_gpt_oss = {
    .desc = {"gpt-oss", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_gguf, refused),
             ARCH_TABLE(refused_hf, refused_hf), .window = &window, ARCH_TABLE(slots, slots),
             .finish = gpt_oss_finish},
    .bind = bind_interleaved,
    .build = layer_decoder,
};
