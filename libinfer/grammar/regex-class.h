/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses the parts of a regular expression that stand for one code point. */

#include "core/arena.h"
#include "grammar/regex.h"

struct regex_parser {
    struct grammar_builder *b;
    struct arena *arena;
    const char *pattern;
    size_t len, at;
    unsigned flags, depth;
    struct inf_err *reterr;
};

/* Parses an escape, which begins at the current backslash. If the escape stands for a set, adds
 * this set to @set. Otherwise sets *ret_cp. *ret_is_set tells which of the two happened. */
int regex_escape(struct regex_parser *p, struct set *set, uint32_t *ret_cp, bool *ret_is_set);
/* Parses a class, which begins at the current bracket. @set is empty; it gets the code points that
 * the class matches, also with respect to the flag i. */
int regex_class(struct regex_parser *p, struct set *set);
