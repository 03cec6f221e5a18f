/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON of requests and answers: parsing with limits, and writing into a str
 *
 * jansson parses, after checks of UTF-8, depth, duplicate keys, and the memory that the values will
 * take. Writing is done by hand, because it happens once per token.
 */

#include <infer/types.h>
#include <jansson.h>

#include "core/macros.h"
#include "core/str.h"

#define JSON_MAX_DEPTH    64
#define JSON_MEMORY_SMALL ((size_t)1 << 20)
#define JSON_MEMORY_LARGE ((size_t)64 << 20)

/* Parses one value. -EBADMSG with the reason; -E2BIG: its values need more than json_max_memory();
 * -ENOMEM. The caller owns the reference. */
int json_parse(const char *data, size_t len, json_t **ret_json, struct inf_err *reterr);

/* Like json_parse(), but the memory of the values must fit into @room and is subtracted from it. */
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
/* Writes the shortest decimal form; null for NaN and infinities. */
int json_put_double(struct str *out, double value);
