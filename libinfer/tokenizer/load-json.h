/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the functions that load the parts of tokenizer.json. Each fills its part of the
 * pipeline. */

#include "format/json.h"
#include "tokenizer/pipeline.h"

struct json_load {
    struct inf_tokenizer *tok;
    struct inf_err *reterr;
    unsigned depth; /* nesting of Sequences */
    int32_t unknown;
};

#define JSON_LOAD_DEPTH 16

int json_load_model(struct json_load *l, const json_t *model);
int json_load_normalizer(struct json_load *l, const json_t *j);
int json_load_splitter(struct json_load *l, const json_t *j);
int json_load_decoder(struct json_load *l, const json_t *j);

/* Returns a copy of the string @j in the tokenizer's arena; NULL if @j is not a string or there is
 * not enough memory. */
const char *json_load_text(struct json_load *l, const json_t *j, size_t *ret_len);
/* Returns the string "type" of @j, or "". */
const char *json_load_type(const json_t *j);
bool json_load_bool(const json_t *j, const char *key, bool otherwise);
/* Returns @j if it is a whole number from 0 to @max, or else -1. */
int64_t json_load_uint(const json_t *j, int64_t max);
int json_load_unsupported(struct json_load *l, const char *what, const json_t *j);
/* Loads a pattern, {"String": …} or {"Regex": …}: sets *ret_text or *ret_pattern. */
int json_load_pattern(struct json_load *l, const json_t *j, const char **ret_text, size_t *ret_len,
                      struct pattern **ret_pattern);
