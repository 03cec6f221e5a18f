/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* These functions read values of config.json by type, for models of all classes. */

#include "format/json.h"
#include "graph/graph.h"

struct hf_reader {
    const json_t *config;
    struct inf_err *err;
};

/* A field of a config.json that is a count. */
struct hf_count {
    const char *key, *other; /* @other: an alternative name, or NULL */
    uint32_t absent;         /* the value if the key is missing, or HF_NEEDED */
    uint32_t *ret;
};

#define HF_NEEDED UINT32_MAX

/* A key that changes the results in a way that is not supported, unless it is missing, null, false,
 * an empty list, or the number @neutral. */
struct hf_refused {
    const char *key;
    double neutral;
};

/* The value of @key in @object. NULL: it is missing or null, or @object is not an object. */
const json_t *hf_value(const json_t *object, const char *key);
/* Like hf_value(), for the first of two keys that exists; @other may be NULL. */
const json_t *hf_get(const struct hf_reader *r, const char *key, const char *other);
/* -EBADMSG: the key is not a count up to INT32_MAX, or missing although @absent is HF_NEEDED. */
int hf_get_count(const struct hf_reader *r, const char *key, const char *other, uint32_t absent,
                 uint32_t *ret);
/* Reads all rows; stops at the first error. */
int hf_get_counts(const struct hf_reader *r, const struct hf_count *counts, size_t n);
/* -EBADMSG: the value is neither true nor false. */
int hf_get_flag(const struct hf_reader *r, const char *key, bool absent, bool *ret);
/* -EOPNOTSUPP: the file has a quantization_config, or one of these keys. */
int hf_check_refused(const struct hf_reader *r, const struct hf_refused *keys, size_t n);
/* -EBADMSG: the value is not a number. */
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
