/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes literals of other languages as JSON, while they come.
 *
 * Python: 'text' or "text", True, False, None, numbers, lists, tuples, and dicts. Gemma 4:
 * <|"|>text<|"|>, and keys of objects without quotes. JSON itself is read as well. A bare word that
 * is no constant and no number becomes a string.
 */

#include "chat/reply/parser.h"

struct literal_text {
    const char *data;
    size_t len;
    bool ended; /* no more text comes */
};

/*
 * Consumes the text of one value from byte *pos, and appends JSON to @out. *@l is zeroed at first.
 * STEP_DONE: the value is complete; STEP_MORE; STEP_FAIL: the text is no literal, or out of memory
 * (then @out was not written). The JSON that was appended before a failure stays in @out.
 */
enum step literal_read(struct literal *l, struct literal_text text, size_t *pos, struct str *out);
