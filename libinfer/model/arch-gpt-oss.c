/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes gpt-oss (OpenAI 2025): 20B and 120B, from GGUF files.
 *
 * All layers have experts, and every second layer has a window. All products have biases. Each head
 * has a sink: a logit that takes part in the softmax but has no value. The router selects experts
 * by their scores, and then applies the softmax to the selected scores only. The ramp of YaRN is
 * not rounded to whole pairs.
 *
 * Files in Hugging Face layout are refused: they store the matrices of the experts with the inputs
 * first, or in MXFP4 with blocks of another order and with rows of gate and up in turn. Kernels
 * cannot read these layouts.
 */
#include <errno.h>

#include "core/err.h"
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {{"gpt-oss", ROPE_HALF}};

static const struct arch_window window = {.absent = 128, .every = 2};

static const struct arch_class classes[] = {
    {"GptOssForCausalLM", "gpt_oss", .n_kv_heads = 8, .head_dim = 64, .n_ctx = 131072,
     .theta = 150000, .flags = CLASS_ATTENTION_BIAS, .window = &window},
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

#define GPT_OSS_EXPERTS(id, gguf, rows, cols)                                                      \
    {                                                                                              \
        id, gguf, NULL, NULL, rows, cols, DIM_EXPERTS                                              \
    }

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    SLOTS_ATTENTION,
    SLOTS_QKV_BIAS(0),
    {SLOT_OUT_BIAS, "attn_output.bias", NULL, NULL, DIM_1, DIM_EMBD},
    {SLOT_SINKS, "attn_sinks.weight", NULL, NULL, DIM_1, DIM_HEADS},
    {SLOT_FFN_NORM, "post_attention_norm.weight", NULL, NULL, DIM_1, DIM_EMBD},
    {SLOT_ROUTER, "ffn_gate_inp.weight", NULL, NULL, DIM_EXPERTS, DIM_EMBD},
    {SLOT_ROUTER_BIAS, "ffn_gate_inp.bias", NULL, NULL, DIM_1, DIM_EXPERTS},
    GPT_OSS_EXPERTS(SLOT_GATE_EXPERTS, "ffn_gate_exps.weight", DIM_EXPERT_FF, DIM_EMBD),
    GPT_OSS_EXPERTS(SLOT_GATE_EXPERTS_BIAS, "ffn_gate_exps.bias", DIM_1, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_UP_EXPERTS, "ffn_up_exps.weight", DIM_EXPERT_FF, DIM_EMBD),
    GPT_OSS_EXPERTS(SLOT_UP_EXPERTS_BIAS, "ffn_up_exps.bias", DIM_1, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_DOWN_EXPERTS, "ffn_down_exps.weight", DIM_EMBD, DIM_EXPERT_FF),
    GPT_OSS_EXPERTS(SLOT_DOWN_EXPERTS_BIAS, "ffn_down_exps.bias", DIM_1, DIM_EMBD),
};

static int gpt_oss_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    if (source == ARCH_HF)
        return err_set(reterr, EOPNOTSUPP,
                       "gpt-oss in Hugging Face layout stores its experts in a layout that is not "
                       "supported; use a GGUF file of this model");
    hp->act = GRAPH_ACT_SWIGLU_LIMITED;
    hp->experts.score = ROUTE_SOFTMAX_SELECTED;
    hp->yarn_no_truncate = true;
    return 0;
}

const struct arch arch_gpt_oss = {
    .desc = {"gpt-oss", ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_gguf, refused), .window = &window,
             ARCH_TABLE(slots, slots), .finish = gpt_oss_finish},
    .build = layer_decoder,
};
