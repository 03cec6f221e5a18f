/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* config.json of transformers: hyperparameters of the classes that this build runs. */

#include "format/hf/names.h"
#include "format/hparams.h"
#include "format/json.h"

struct hf_config {
    struct hparams hp;
    bool bias_qkv, bias_out, bias_mlp; /* the layers have these biases */
    bool tied; /* the head is the embedding, unless the file has one of its own */
    bool base; /* a class without a head: there may be none */
    /* Canonical names of its tensors (names.h). */
    bool (*tensor_name)(const char *name, char out[HF_NAME_MAX]);
};

/* -EOPNOTSUPP names the class or feature that nothing here computes; -EBADMSG. */
int hf_config_parse(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-bert.c: encoders, which hf_config_parse() leaves to it. */
bool hf_config_is_encoder(const json_t *config);
int hf_config_encoder(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* config-window.c: those of whose layers some see a window only. */
bool hf_config_is_windowed(const json_t *config);
int hf_config_windowed(const json_t *config, struct hf_config *ret_config, struct inf_err *reterr);
/* adapters.c: what jina-embeddings-v4 has beside the language model, into @c. */
int hf_config_adapted(const json_t *config, struct hf_config *c, struct inf_err *reterr);
/* Only arch (model_type) and name, as far as the file tells. */
void hf_config_names(const json_t *config, struct hparams *hp);
