/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes BitNet b1.58 (Ma et al. 2025), with ternary weights or with ordinary matrices (struct
 * hparams). Attention and the feed-forward part have a norm before their last matrix. The gate
 * passes through the square of relu.
 */
#include "model/arch.h"

static const struct arch_class classes[] = {
    {"BitNetForCausalLM", "bitnet", .n_kv_heads = 5, .n_ctx = 2048, .theta = 500000,
     .flags = CLASS_ATTENTION_BIAS},
};

static const struct arch_field fields[] = {
    {FIELD(act), FIELD_ACT, NULL, "hidden_act", .absent = GRAPH_ACT_RELU2},
};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    SLOTS_ATTENTION,
    SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS,
    SLOTS_FFN_NORM,
    SLOTS_GATED_FF(0),
    {SLOT_ATTN_SUB_NORM, "attn_sub_norm.weight", "self_attn.attn_sub_norm.weight", NULL, DIM_1,
     DIM_EMBD},
    {SLOT_FFN_SUB_NORM, "ffn_sub_norm.weight", "mlp.ffn_sub_norm.weight", NULL, DIM_1, DIM_FF},
};

const struct arch arch_bitnet = {
    .desc = {"bitnet", ARCH_TABLE(classes, classes), ARCH_TABLE(fields, fields),
             ARCH_TABLE(slots, slots)},
    .build = layer_decoder,
};
