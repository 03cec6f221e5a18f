/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes a config.json from hyperparameters. */

#include "format/arch-desc.h"
#include "format/json.h"

/* Says what a model has besides its hyperparameters. */
struct hf_parts {
    bool tied; /* the head is the embedding */
    bool bias_qkv, bias_out, bias_mlp;
};

/* Makes the config.json of the first class of @desc that can say what @hp says. The caller owns
 * *ret_config. *ret_add_one: whether directories store the weights of norms minus 1. -EOPNOTSUPP:
 * no class can say it; the message names the setting. */
int hf_put_config(const struct arch_list *archs, const struct arch_desc *desc,
                  const struct hparams *hp, const struct hf_parts *parts, json_t **ret_config,
                  bool *ret_add_one, struct inf_err *reterr);
