/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares string operations that methods and filters share (pystr.c). */

#include "chat/jinja.h"

enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };

/* Removes characters at one or both ends of @s. @chars has the characters to remove. If @chars is
 * V_MISSING or None, whitespace is removed. */
struct value text_strip(struct jinja *j, struct value s, struct value chars, enum strip_side side);
/* Return the first or the last occurrence of @what in [@p, @end), or NULL. @what has at least one
 * byte. */
const char *text_find(struct jinja *j, const char *p, const char *end, const struct jstr *what);
const char *text_find_last(struct jinja *j, const char *p, const char *end,
                           const struct jstr *what);
/* Replaces at most @max occurrences; @max < 0: all. */
struct value text_replace(struct jinja *j, struct value s, struct jstr *old, struct jstr *new,
                          int64_t max);
struct value text_split(struct jinja *j, struct value s, struct value sep, int64_t max, bool right);
struct value text_lines(struct jinja *j, struct value s, bool keep_ends);
struct value text_pad(struct jinja *j, struct value s, int64_t left, int64_t right, uint32_t fill);
struct value text_center(struct jinja *j, struct value s, int64_t width, uint32_t fill);
struct value text_reverse(struct jinja *j, struct value s);
