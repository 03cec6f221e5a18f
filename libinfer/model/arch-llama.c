/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Llama 2 and 3 (Touvron et al. 2023), Mistral (Jiang et al. 2023), TinyLlama, and other
 * models with the same layers. These models have norms before attention and before feed-forward
 * layers, rotary positions, grouped queries, and gated feed-forward layers, which have experts in
 * Mixtral (Jiang et al. 2024). Biases are used if the file has them, and a sliding window if the
 * hyperparameters contain one.
 */
#include "model/arch.h"

/* Files of this family store the rows of q and k interleaved. */
static const struct arch_gguf ggufs[] = {{"llama", ROPE_PAIRS}, {"mistral3", ROPE_PAIRS}};

static const struct arch_window window = {.absent = 4096};

static const struct arch_window mixtral_window = {.absent = 0};

static const struct arch_field mixtral_fields[] = {
    {FIELD(norm_eps), FIELD_NUMBER, NULL, "rms_norm_eps", .absent = 1e-5},
    {FIELD(experts.n), FIELD_COUNT, NULL, "num_local_experts", "num_experts", .absent = 8},
    {FIELD(experts.n_used), FIELD_COUNT, NULL, "num_experts_per_tok", .absent = 2},
};

static const struct arch_class classes[] = {
    {"LlamaForCausalLM", "llama", .n_ctx = 2048, .flags = CLASS_ATTENTION_BIAS | CLASS_MLP_BIAS},
    {"MistralForCausalLM", "mistral", .n_kv_heads = 8, .n_ctx = 4096 * 32, .window = &window},
    {"MinistralForCausalLM", "ministral", .n_kv_heads = 8, .n_ctx = 4096 * 32, .window = &window},
    {"MixtralForCausalLM", "mixtral", .n_kv_heads = 8, .n_ctx = 4096 * 32, .theta = 1e6f,
     .window = &mixtral_window, ARCH_TABLE(fields, mixtral_fields)},
};

static const struct arch_field fields[] = {
    {FIELD(experts.n), FIELD_COUNT, "expert_count"},
    {FIELD(experts.n_used), FIELD_COUNT, "expert_used_count"},
    {FIELD(experts.scale), FIELD_NUMBER, "expert_weights_scale"},
};

static const struct arch_refused refused[] = {{"expert_gating_func", 1}};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,     SLOTS_ATTENTION, SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS, SLOTS_FFN_NORM,  SLOTS_GATED_FF(IN_DENSE),
    SLOTS_FF_BIAS,  SLOTS_EXPERTS,
};

/* The experts of Mixtral have the width of the feed-forward layers. */
static int llama_finish(struct hparams *hp, enum arch_source source UNUSED,
                        struct inf_err *reterr UNUSED)
{
    hp->experts.ff = hp->n_ff;
    hp->experts.norm_topk = true;
    return 0;
}

const struct arch arch_llama = {
    .desc = {"llama", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_gguf, refused),
             ARCH_TABLE(slots, slots), .finish = llama_finish},
    .build = layer_decoder,
};
