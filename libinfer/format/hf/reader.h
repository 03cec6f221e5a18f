/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reading config.json value by value: what encoders of all kinds need. */

#include "format/json.h"
#include "graph/graph.h"

struct hf_reader {
    const json_t *config;
    struct inf_err *err;
};

/* The first of two keys that is there; @other may be NULL. NULL for null as well. */
const json_t *hf_get(const struct hf_reader *r, const char *key, const char *other);
/* -EBADMSG unless the key is absent, or a count up to INT32_MAX. */
int hf_get_count(const struct hf_reader *r, const char *key, const char *other, uint32_t absent,
                 uint32_t *ret);
int hf_get_number(const struct hf_reader *r, const char *key, const char *other, float absent,
                  float *ret);
/* Whether transformers has an activation of that name that is computed here. */
bool hf_act_find(const char *name, enum graph_act *ret_act);
/* The activation at @key. -EOPNOTSUPP: another one. */
int hf_get_act(const struct hf_reader *r, const char *key, const char *absent,
               enum graph_act *ret_act);
/* Labels of a classifier: transformers tells them by a table, of which two are the default. */
int hf_get_labels(const struct hf_reader *r, uint32_t *ret_n);
/* config.architectures[0], or NULL. */
const char *hf_class_name(const json_t *config);
