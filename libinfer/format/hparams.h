/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hyperparameters of decoder-only transformers, from GGUF metadata or config.json
 */

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"

enum rope_scaling {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,
    ROPE_SCALING_LLAMA3,
    ROPE_SCALING_YARN,
};

struct hparams {
    char arch[32];  /* canonical: "llama", "qwen2", "qwen3" */
    char name[128]; /* what the file calls the model */
    uint32_t n_vocab, n_ctx_train, n_embd, n_layers, n_ff;
    uint32_t n_heads, n_kv_heads, head_dim;
    float norm_eps;

    enum rope_style rope_style;
    uint32_t rope_dims;
    float rope_theta;
    enum rope_scaling rope_scaling;
    float rope_factor;
    uint32_t rope_ctx_orig; /* llama3, yarn */
    float rope_low_freq_factor, rope_high_freq_factor; /* llama3 */
    float yarn_beta_fast, yarn_beta_slow, yarn_attn_factor, yarn_mscale, yarn_mscale_all_dim;

    uint32_t window;       /* sliding window in tokens; 0: none */
    uint32_t n_full_first; /* with a window: layers below this index attend to everything */

    float embed_scale, logit_scale, residual_scale, attn_scale; /* 0: the usual */
    enum graph_act act;
};
