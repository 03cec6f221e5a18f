/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements Llama 2 and 3 (Touvron et al. 2023), Mistral (Jiang et al. 2023), TinyLlama, and other
 * models with the same layers. These models have norms before attention and before feed-forward
 * layers, rotary positions, grouped queries, and gated feed-forward layers. Biases are used if the
 * file has them, and a sliding window if the hyperparameters contain one.
 */
#include "model/arch.h"

static int llama_bind(struct model *m, struct inf_err *reterr)
{
    return weights_bind(m, 0, reterr);
}

const struct arch arch_llama = {.name = "llama", .bind = llama_bind, .build = layer_decoder};
