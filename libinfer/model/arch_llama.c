/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama 2 and 3 (Touvron et al. 2023), Mistral (Jiang et al. 2023), TinyLlama and others of their
 * shape: pre-norm, rotary positions, grouped queries, gated feed-forward. Biases where the file
 * has them; a sliding window where the hyperparameters say so.
 */
#include "model/arch.h"

static int bind(struct model *m, struct inf_err *reterr)
{
    return weights_bind(m, 0, reterr);
}

static void build(const struct model *m, struct graph *g)
{
    graph_ref x = layer_embed(m, g);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        x = layer_attention(m, g, i, x);
        x = layer_feed_forward(m, g, i, x);
    }
    layer_head(m, g, x);
}

const struct arch arch_llama = {.name = "llama", .bind = bind, .build = build};
