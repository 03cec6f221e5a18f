/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the function of the regex reader that readers of other notations call, and its flags. */

#include "grammar/builder.h"
#include "grammar/set.h"

enum regex_flags {
    REGEX_UNANCHORED = 1 << 0,  /* see grammar_regex() */
    REGEX_IGNORE_CASE = 1 << 1, /* i */
    REGEX_DOT_ALL = 1 << 2,     /* s: "." matches the ends of lines */
    REGEX_VERBOSE = 1 << 3,     /* x: white space and comments are left out */
    REGEX_RUST = 1 << 4,        /* \d, \s, \w are those of Unicode; "." excludes only \n */
};

/* Like grammar_regex(), with a set of flags. */
int regex_read(struct grammar_builder *b, const char *pattern, size_t len, unsigned flags,
               grammar_node *ret_node, struct inf_err *reterr);
