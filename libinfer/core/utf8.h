/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates,
 * nothing above U+10FFFF.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length of the longest valid prefix of @s, which ends after a whole code point. */
size_t utf8_valid_prefix(const char *s, size_t len);
static inline bool utf8_valid(const char *s, size_t len)
{
    return utf8_valid_prefix(s, len) == len;
}
/* Decodes one code point. Returns its length 1–4, or 0 if @s does not start with a valid code
 * point. */
size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp);
/* Encodes into @out (4 bytes). Returns the length, or 0 if @cp is not a scalar value. */
size_t utf8_encode(uint32_t cp, char *out);
/* Returns how many bytes are missing (1–3) if @s is the incomplete beginning of a valid code point,
 * else 0. */
size_t utf8_incomplete(const char *s, size_t len);
/* Returns how many invalid bytes at @s one U+FFFD replaces: the "maximal subpart" of Unicode 3.9,
 * as in Python, at least 1. Call it where utf8_decode() returned 0. */
size_t utf8_bad_length(const char *s, size_t len);
