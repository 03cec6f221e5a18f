/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Qwen 1.5 and 2 with experts (Yang et al. 2024), whose layers also have an expert that
 * all rows use, and Qwen 3 with experts (Yang et al. 2025), which normalizes q and k per head. In
 * GGUF files all layers have experts.
 */
#include "model/arch.h"

static const struct arch_gguf ggufs2[] = {{"qwen2moe", ROPE_HALF}};
static const struct arch_gguf ggufs3[] = {{"qwen3moe", ROPE_HALF}};

static const struct arch_window window = {.absent = 4096, .switched = true};

static const struct arch_field defaults2[] = {
    FIELDS_EXPERTS(60, 4, 1408),
    {FIELD(experts.shared_ff), FIELD_COUNT, NULL, "shared_expert_intermediate_size",
     .absent = 5632},
};

static const struct arch_field defaults3[] = {FIELDS_EXPERTS(128, 8, 768)};

static const struct arch_class classes2[] = {
    {"Qwen2MoeForCausalLM", "qwen2_moe", .n_kv_heads = 16, .n_ctx = 32768, .flags = CLASS_QKV_BIAS,
     ARCH_TABLE(fields, defaults2)},
};

static const struct arch_class classes3[] = {
    {"Qwen3MoeForCausalLM", "qwen3_moe", .n_kv_heads = 4, .n_ctx = 32768,
     .flags = CLASS_ATTENTION_BIAS, .window = &window, ARCH_TABLE(fields, defaults3)},
};

static const struct arch_field fields[] = {
    FIELDS_EXPERTS_GGUF,
    {FIELD(experts.shared_ff), FIELD_COUNT, "expert_shared_feed_forward_length"},
};

/* Without a list of layers, the layers with a window depend on the class. */
static const struct arch_refused refused2[] = {{"use_sliding_window", 0}};
static const struct arch_refused refused[] = {{"expert_gating_func", 1}};

static const struct arch_slot slots2[] = {
    SLOTS_ENDS,     SLOTS_ATTENTION,     SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS, SLOTS_FFN_NORM,      SLOTS_GATED_FF(IN_DENSE),
    SLOTS_EXPERTS,  SLOTS_SHARED_EXPERT,
};

static const struct arch_slot slots3[] = {
    SLOTS_ENDS,    SLOTS_ATTENTION, SLOTS_QKV_BIAS(SLOT_OPTIONAL), SLOTS_OUT_BIAS,
    SLOTS_QK_NORM, SLOTS_FFN_NORM,  SLOTS_GATED_FF(IN_DENSE),      SLOTS_EXPERTS,
};

static int qwen2_finish(struct hparams *hp, enum arch_source source UNUSED,
                        struct inf_err *reterr UNUSED)
{
    if (hp->experts.ff == 0 && hp->experts.n_used > 0)
        hp->experts.ff = hp->n_ff / hp->experts.n_used;
    if (hp->experts.shared_ff == 0)
        hp->experts.shared_ff = hp->n_ff;
    return 0;
}

/* GGUF files do not say whether the weights of the experts are normalized. */
static int qwen3_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr UNUSED)
{
    if (hp->experts.ff == 0 && hp->experts.n_used > 0)
        hp->experts.ff = hp->n_ff / hp->experts.n_used;
    if (source == ARCH_GGUF)
        hp->experts.norm_topk = true;
    return 0;
}

const struct arch arch_qwen2_moe = {
    .desc = {"qwen2moe", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs2),
             ARCH_TABLE(classes, classes2), ARCH_TABLE(fields, fields),
             ARCH_TABLE(refused_gguf, refused), ARCH_TABLE(refused_hf, refused2),
             ARCH_TABLE(slots, slots2), .finish = qwen2_finish},
    .build = layer_decoder,
};

const struct arch arch_qwen3_moe = {
    .desc = {"qwen3moe", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs3),
             ARCH_TABLE(classes, classes3), ARCH_TABLE(fields, fields),
             ARCH_TABLE(refused_gguf, refused), ARCH_TABLE(slots, slots3), .finish = qwen3_finish},
    .build = layer_decoder,
};
