/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the config.json of transformers: the hyperparameters of the supported classes. */

#include "format/arch-desc.h"
#include "format/json.h"

struct hf_config {
    struct hparams hp;
    const struct arch_desc *desc;
    bool bias_qkv, bias_out, bias_mlp; /* whether these matrices of the layers have biases */
    bool tied; /* the head is the embedding, unless the file has a separate head */
    bool base; /* the class has no head, so the head may be missing */
};

/* Parses a config.json of one of the architectures @archs. -EOPNOTSUPP: the class or a feature is
 * not supported; the message names it. -EBADMSG: a value is invalid. */
int hf_config_parse(const json_t *config, const struct arch_list *archs,
                    struct hf_config *ret_config, struct inf_err *reterr);
/* rope.c: reads the settings of rotary positions. The size of a head must be known. */
int hf_get_rope(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
/* layers.c: reads what each layer is. The number of layers must be known. */
int hf_get_layers(const struct hf_reader *r, const struct arch_desc *desc,
                  const struct arch_class *class, struct hparams *hp);
/* quantized.c: reads how weights are quantized. -EOPNOTSUPP: the method is not supported. */
int hf_get_quantized(const struct hf_reader *r, const struct arch_desc *desc,
                     const struct arch_class *class, struct hparams *hp);
/* quantized-mlx.c: checks the value of "quantization", an object that MLX wrote. */
int hf_check_mlx(const struct hf_reader *r, json_t *quantization);
/* Sets only arch (model_type) and name, each to "" if the file does not have it. */
void hf_config_names(const json_t *config, struct hparams *hp);
