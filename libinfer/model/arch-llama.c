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

const struct arch arch_llama = {.name = "llama", .bind = bind, .build = layer_decoder};
