/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Qwen 2 and 2.5 (Yang et al. 2024), which have the layers of Llama, with biases on q, k
 * and v. Also describes the dense models of Qwen 3 (Yang et al. 2025), which have no biases, but
 * normalize q and k per head before rotation.
 */
#include "model/arch.h"

static const struct arch_gguf ggufs2[] = {{"qwen2", ROPE_HALF}};
static const struct arch_gguf ggufs3[] = {{"qwen3", ROPE_HALF}};

static const struct arch_window window = {
    .absent = 4096,
    .switched = true,
    .hf_full_key = "max_window_layers",
};

static const struct arch_class classes2[] = {
    {"Qwen2ForCausalLM", "qwen2", .n_kv_heads = 32, .n_ctx = 32768, .flags = CLASS_BIAS_QKV,
     .window = &window},
};

static const struct arch_class classes3[] = {
    {"Qwen3ForCausalLM", "qwen3", .n_kv_heads = 32, .head_dim = 128, .n_ctx = 32768,
     .flags = CLASS_ATTENTION_BIAS, .window = &window},
};

static const struct arch_slot slots2[] = {
    SLOTS_ENDS,     SLOTS_ATTENTION,   SLOTS_QKV_BIAS(0), SLOTS_OUT_BIAS,
    SLOTS_FFN_NORM, SLOTS_GATED_FF(0), SLOTS_FF_BIAS,
};

static const struct arch_slot slots3[] = {
    SLOTS_ENDS,        SLOTS_ATTENTION, SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS,    SLOTS_QK_NORM,   SLOTS_FFN_NORM,
    SLOTS_GATED_FF(0), SLOTS_FF_BIAS,
};

const struct arch arch_qwen2 = {
    .desc = {"qwen2", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs2), ARCH_TABLE(classes, classes2),
             ARCH_TABLE(slots, slots2)},
    .build = layer_decoder,
};

const struct arch arch_qwen3 = {
    .desc = {"qwen3", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs3), ARCH_TABLE(classes, classes3),
             ARCH_TABLE(slots, slots3)},
    .build = layer_decoder,
};
