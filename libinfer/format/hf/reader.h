/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads values of config.json by type, for models of all classes. */

#include "format/fields.h"
#include "format/json.h"

struct hf_reader {
    const json_t *config; /* the object with the keys */
    struct inf_err *err;
    const json_t *root; /* the whole file, of which `config` may be a member */
};

#define HF_NEEDED UINT32_MAX

/* Returns the value of @key in @object. NULL: the value is missing or null, or @object is not an
 * object. */
const json_t *hf_value(const json_t *object, const char *key);
/* Returns the value of @key, or if it is missing or null, the value of @other, which may be NULL.
 * NULL: both are missing or null. */
const json_t *hf_get(const struct hf_reader *r, const char *key, const char *other);
/* Reads a count. -EBADMSG: the value is not a count up to INT32_MAX, or the key is missing and
 * @absent is HF_NEEDED. */
int hf_get_count(const struct hf_reader *r, const char *key, const char *other, uint32_t absent,
                 uint32_t *ret);
/* Reads all fields of the lists. */
int hf_get_fields(const struct hf_reader *r, const struct field_lists *lists, struct hparams *hp);
/* Reads a flag. -EBADMSG: the value is neither true nor false. */
int hf_get_flag(const struct hf_reader *r, const char *key, bool absent, bool *ret);
/* Checks that no feature of @keys is on, except for keys that a field reads. -EOPNOTSUPP: a feature
 * is on. */
int hf_check_refused(const struct hf_reader *r, const struct field_lists *lists,
                     const struct arch_refused *keys, size_t n);
/* Reads a number. -EBADMSG: the value is not a number. */
int hf_get_number(const struct hf_reader *r, const char *key, const char *other, float absent,
                  float *ret);
/* Reads the activation at @key; @absent is its name if the key is missing. -EOPNOTSUPP: the
 * activation is not supported. */
int hf_get_act(const struct hf_reader *r, const char *key, const char *absent,
               enum graph_act *ret_act);
/* Reads the number of labels of a classifier. transformers stores the labels as a table; without a
 * table there are two labels. */
int hf_get_labels(const struct hf_reader *r, uint32_t *ret_n);
/* Returns config.architectures[0], or NULL. */
const char *hf_class_name(const json_t *config);
