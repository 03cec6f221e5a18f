/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements Qwen 2 and 2.5 (Yang et al. 2024), which have the layers of Llama, with biases on q, k
 * and v. Also implements the dense models of Qwen 3 (Yang et al. 2025), which have no biases, but
 * normalize q and k per head before rotation.
 */
#include "model/arch.h"

static int bind_qwen2(struct model *m, struct inf_err *reterr)
{
    return weights_bind(m, WEIGHTS_QKV_BIAS, reterr);
}

static int bind_qwen3(struct model *m, struct inf_err *reterr)
{
    return weights_bind(m, WEIGHTS_QK_NORM, reterr);
}

const struct arch arch_qwen2 = {.name = "qwen2", .bind = bind_qwen2, .build = layer_decoder};
const struct arch arch_qwen3 = {.name = "qwen3", .bind = bind_qwen3, .build = layer_decoder};
