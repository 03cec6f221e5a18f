/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* config.json of transformers: hyperparameters of the supported classes. */

#include "format/hf/names.h"
#include "format/hparams.h"
#include "format/json.h"

struct hf_config {
    struct hparams hp;
    bool bias_qkv, bias_out, bias_mlp; /* which biases the layers have */
    bool tied; /* the head is the embedding, unless the file has a separate head */
    bool base; /* a class without a head: the head may be missing */
    /* Converts tensor names to canonical ones (names.h). */
    bool (*tensor_name)(const char *name, char out[HF_NAME_MAX]);
};

/* -EOPNOTSUPP names the unsupported class or feature; -EBADMSG. */
int hf_config_parse(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-bert.c: encoders, for which hf_config_parse() calls it. */
bool hf_config_is_encoder(const json_t *config);
int hf_config_encoder(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-window.c: encoders in which some layers see only a window. */
bool hf_config_is_windowed(const json_t *config);
int hf_config_windowed(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* adapters.c: adds to @c what jina-embeddings-v4 has besides the language model. */
int hf_config_adapted(const json_t *config, struct hf_config *c, struct inf_err *reterr);
/* Sets only arch (model_type) and name, as far as the file has them. */
void hf_config_names(const json_t *config, struct hparams *hp);
