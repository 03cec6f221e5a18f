/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses the JSON of requests with limits, and writes JSON into a struct str.
 *
 * First, checks of a text ensure that it is UTF-8, that it is not nested too deeply, and that its
 * values will not take too much memory. Then jansson parses the text, and refuses duplicate keys.
 * The functions for writing do not use jansson, because they run once per token and must be fast.
 */

#include <infer/types.h>
#include <jansson.h>

#include "core/macros.h"
#include "core/str.h"

#define JSON_MAX_DEPTH    64
#define JSON_MEMORY_SMALL ((size_t)1 << 20)
#define JSON_MEMORY_LARGE ((size_t)64 << 20)

/* Parses one value. The caller owns *ret_json. -EBADMSG with the reason; -E2BIG: the values would
 * take too much memory for the size of the text; -ENOMEM. */
int json_parse(const char *data, size_t len, json_t **ret_json, struct inf_err *reterr);

/* Works like json_parse(), but the values may take at most *room bytes of memory. The bytes that
 * they take are subtracted from *room. */
int json_parse_within(const char *data, size_t len, size_t *room, json_t **ret_json,
                      struct inf_err *reterr);

static inline void json_drop(json_t **json)
{
    json_decref(*json);
}
#define _cleanup_json_ _cleanup_(json_drop)

/* Writes a quoted string. Invalid UTF-8 becomes U+FFFD. */
int json_put_string(struct str *out, const char *text, size_t len);
/* Writes a quoted string, or null for NULL. */
int json_put_text(struct str *out, const char *text);
int json_put_uint(struct str *out, uint64_t value);
/* Writes the shortest decimal form of @value; null for NaN and infinities. */
int json_put_double(struct str *out, double value);
