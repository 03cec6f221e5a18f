/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes literals of other languages as JSON, while their text comes.
 *
 * Python: 'text' or "text", True, False, None, numbers, lists, tuples, and dicts. Gemma 4:
 * <|"|>text<|"|>, and keys of objects without quotes. JSON itself is read as well. A word without
 * quotes becomes a string if it is neither a constant nor a number.
 */

#include "chat/reply/parser.h"

struct literal_text {
    const char *data;
    size_t len;
    bool ended; /* no more text comes */
};

/*
 * Consumes the text of one value from byte *pos, and appends JSON to @out. *@l must be zeroed
 * before the first call. Returns STEP_DONE if the value is complete, STEP_MORE if more text is
 * needed, and STEP_FAIL if the text is not a literal or memory is short. JSON that was appended
 * before a failure stays in @out.
 */
enum step literal_read(struct literal *l, struct literal_text text, size_t *pos, struct str *out);
