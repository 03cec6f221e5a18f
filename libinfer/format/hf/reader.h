/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reading config.json value by value, for encoders of all kinds. */

#include "format/json.h"
#include "graph/graph.h"

struct hf_reader {
    const json_t *config;
    struct inf_err *err;
};

/* The first of two keys that exists; @other may be NULL. NULL also for null. */
const json_t *hf_get(const struct hf_reader *r, const char *key, const char *other);
/* -EBADMSG unless the key is missing or a count up to INT32_MAX. */
int hf_get_count(const struct hf_reader *r, const char *key, const char *other, uint32_t absent,
                 uint32_t *ret);
int hf_get_number(const struct hf_reader *r, const char *key, const char *other, float absent,
                  float *ret);
/* Finds the activation that transformers calls @name. Returns false if it is not supported. */
bool hf_act_find(const char *name, enum graph_act *ret_act);
/* The activation at @key. -EOPNOTSUPP: it is not supported. */
int hf_get_act(const struct hf_reader *r, const char *key, const char *absent,
               enum graph_act *ret_act);
/* Number of labels of a classifier: transformers stores them as a table; without one there are
 * two. */
int hf_get_labels(const struct hf_reader *r, uint32_t *ret_n);
/* config.architectures[0], or NULL. */
const char *hf_class_name(const json_t *config);
