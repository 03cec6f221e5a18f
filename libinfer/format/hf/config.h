/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the config.json of transformers: the hyperparameters of the supported classes. */

#include "format/hf/names.h"
#include "format/hparams.h"
#include "format/json.h"

struct hf_config {
    struct hparams hp;
    bool bias_qkv, bias_out, bias_mlp; /* the matrices of the layers that have biases */
    bool tied; /* the head is the embedding, unless the file has a separate head */
    bool base; /* the class has no head, so the head may be missing */
    /* Converts tensor names to canonical names (names.h). */
    bool (*tensor_name)(const char *name, char out[HF_NAME_MAX]);
};

/* Parses a config.json. -EOPNOTSUPP: the class or a feature is not supported; the message names it.
 * -EBADMSG: a value is invalid. */
int hf_config_parse(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-bert.c: reads the config.json of encoders. hf_config_parse() calls these functions. */
bool hf_config_is_encoder(const json_t *config);
int hf_config_encoder(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-window.c: reads the config.json of encoders in which some layers attend only to a window
 * of nearby tokens. */
bool hf_config_is_windowed(const json_t *config);
int hf_config_windowed(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* adapters.c: adds to @c the settings that jina-embeddings-v4 has besides those of its language
 * model. */
int hf_config_adapted(const json_t *config, struct hf_config *c, struct inf_err *reterr);
/* Sets only arch (model_type) and name, as far as the file has them. */
void hf_config_names(const json_t *config, struct hparams *hp);
