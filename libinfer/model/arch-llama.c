/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Llama 2 and 3 (Touvron et al. 2023), Mistral (Jiang et al. 2023), TinyLlama, and other
 * models with the same layers. These models have norms before attention and before feed-forward
 * layers, rotary positions, grouped queries, and gated feed-forward layers. Biases are used if the
 * file has them, and a sliding window if the hyperparameters contain one.
 */
#include "model/arch.h"

/* Files of this family store the rows of q and k interleaved. */
static const struct arch_gguf ggufs[] = {{"llama", ROPE_PAIRS}, {"mistral3", ROPE_PAIRS}};

static const struct arch_window window = {.absent = 4096};

static const struct arch_class classes[] = {
    {"LlamaForCausalLM", "llama", .n_ctx = 2048, .flags = CLASS_ATTENTION_BIAS | CLASS_MLP_BIAS},
    {"MistralForCausalLM", "mistral", .n_kv_heads = 8, .n_ctx = 4096 * 32, .window = &window},
    {"MinistralForCausalLM", "ministral", .n_kv_heads = 8, .n_ctx = 4096 * 32, .window = &window},
};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,     SLOTS_ATTENTION, SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS, SLOTS_FFN_NORM,  SLOTS_GATED_FF(0),
    SLOTS_FF_BIAS,
};

const struct arch arch_llama = {
    .desc = {"llama", ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(slots, slots)},
    .build = layer_decoder,
};
