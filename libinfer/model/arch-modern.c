/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes ModernBERT (Warner et al. 2024).
 *
 * The model is an encoder with norms before attention and before gated units. The first attention
 * has no norm, because its input is the normalized embedding. In every third layer, attention
 * covers the whole text. In the other layers attention is limited to a window, and the rotation has
 * another base.
 */
#include "model/arch.h"

static const struct arch_gguf ggufs[] = {{"modern-bert", ROPE_HALF, .gated = true}};

static const struct arch_window window = {
    .hf_key = "local_attention",
    .absent = 128,
    .both = true,
    .every = 3,
    .first = true,
    .hf_every_key = "global_attn_every_n_layers",
    .theta = 10000,
    .hf_theta_key = "local_rope_theta",
};

#define MODERN(name, flag)                                                                         \
    {                                                                                              \
        name, NULL, .n_ctx = 8192, .theta = 160000, .theta_key = "global_rope_theta",              \
                    .flags = (flag), .window = &window                                             \
    }

static const struct arch_class classes[] = {
    MODERN("ModernBertModel", 0),
    MODERN("ModernBertForMaskedLM", 0),
    MODERN("ModernBertForSequenceClassification", CLASS_CLASSIFIES),
};

static const struct arch_field fields[] = {
    {FIELD(norm_eps), FIELD_NUMBER, "attention.layer_norm_epsilon", "norm_eps", .absent = 1e-5,
     .flags = FIELD_IN_GGUF},
    {FIELD(act), FIELD_ACT, "hidden_activation", "hidden_activation", .absent = GRAPH_ACT_GELU_ERF},
    {FIELD(embed.head_act), FIELD_ACT, NULL, "classifier_activation", .absent = GRAPH_ACT_GELU_ERF},
};

static const struct arch_refused refused[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
};

/* The activation is applied to the first half of the rows of ffn_up. */
static const struct arch_slot slots[] = {
    SLOTS_ENCODER_EMBD,
    {SLOT_OUT_NORM, "output_norm.weight", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_WHOLE},
    {SLOT_OUT_NORM_BIAS, "output_norm.bias", NULL, NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_WHOLE | SLOT_OPTIONAL},
    {SLOT_ATTN_NORM, "attn_norm.weight", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_NOT_IN_FIRST},
    {SLOT_ATTN_NORM_BIAS, "attn_norm.bias", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_OPTIONAL},
    SLOTS_ENCODER_ATTENTION,
    {SLOT_FFN_NORM, "ffn_norm.weight", NULL, NULL, DIM_1, DIM_EMBD},
    {SLOT_FFN_NORM_BIAS, "ffn_norm.bias", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_OPTIONAL},
    {SLOT_GATE_UP, "ffn_up.weight", NULL, NULL, DIM_FF_2, DIM_EMBD},
    {SLOT_GATE_UP_BIAS, "ffn_up.bias", NULL, NULL, DIM_1, DIM_FF_2, .flags = SLOT_OPTIONAL},
    {SLOT_GATE, NULL, NULL, NULL, DIM_FF, DIM_EMBD, .part_of = SLOT_GATE_UP},
    {SLOT_GATE_BIAS, NULL, NULL, NULL, DIM_1, DIM_FF, .flags = SLOT_OPTIONAL,
     .part_of = SLOT_GATE_UP_BIAS},
    {SLOT_UP, NULL, NULL, NULL, DIM_FF, DIM_EMBD, .part_of = SLOT_GATE_UP},
    {SLOT_UP_BIAS, NULL, NULL, NULL, DIM_1, DIM_FF, .flags = SLOT_OPTIONAL,
     .part_of = SLOT_GATE_UP_BIAS},
    {SLOT_DOWN, "ffn_down.weight", NULL, NULL, DIM_EMBD, DIM_FF},
    {SLOT_DOWN_BIAS, "ffn_down.bias", NULL, NULL, DIM_1, DIM_EMBD, .flags = SLOT_OPTIONAL},
};

/* GGUF files do not say how a classifier pools; llama.cpp takes the mean. */
static int modern_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr UNUSED)
{
    if (source == ARCH_GGUF)
        hp->embed.score_pooling = POOLING_MEAN;
    return 0;
}

const struct arch arch_modern_bert = {
    .desc = {"modern-bert", .encoder = true, .layer_norms = true, ARCH_TABLE(ggufs, ggufs),
             ARCH_TABLE(classes, classes), ARCH_TABLE(fields, fields),
             ARCH_TABLE(refused_hf, refused), .window = &window, ARCH_TABLE(slots, slots),
             .finish = modern_finish, .hf_extra = hf_extra_modern, .hf_name = hf_name_encoder},
};
