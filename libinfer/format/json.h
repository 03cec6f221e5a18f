/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses untrusted JSON with jansson: reports errors as struct inf_err, and reads members by
 * type. */

#include <infer/types.h>
#include <jansson.h>

#include "core/macros.h"

enum json_text_flags {
    JSON_TEXT_DUPLICATES = 1 << 0, /* the last duplicate key wins, as in Python; otherwise
                                      duplicates are errors */
    JSON_TEXT_BIG_INTS = 1 << 1,   /* all integers become reals, so that integers beyond 64 bits
                                      are accepted */
};

static inline void json_decrefpp(json_t **j)
{
    json_decref(*j);
}
#define _cleanup_json_ _cleanup_(json_decrefpp)

/* Parses @len bytes of text, which must be a JSON object. Messages call the text @what. -EBADMSG,
 * -ENOMEM. */
int json_text_parse(const char *text, size_t len, unsigned flags, const char *what,
                    json_t **ret_object, struct inf_err *reterr);
/* Does what json_text_parse() does, for a file of at most @max bytes. */
int json_text_read(const char *path, size_t max, unsigned flags, json_t **ret_object,
                   struct inf_err *reterr);
/* Gives the text of a value: a string without quotes, an array or object of more than 1024 bytes
 * as "[…]" or "{…}". The text is in @arena or constant. Returns false if memory runs out. */
struct arena;
bool json_text_of(const json_t *value, struct arena *arena, const char **ret_text);
