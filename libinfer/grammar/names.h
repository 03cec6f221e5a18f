/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A table of the names of rules in one grammar. The parsers of GBNF and Lark use it to look up
 * rules, and to report names that are used but not defined. */

#include "core/arena.h"
#include "core/map.h"
#include "grammar/builder.h"

struct name {
    const char *text;
    grammar_node rule;
    unsigned line; /* where the name was first used or defined */
    bool is_defined;
};

/* A struct of zeros is an empty table. */
struct names {
    struct arena arena;
    struct map map; /* maps a name to its index in `list` */
    struct name *list;
    size_t n, cap;
};

void names_done(struct names *names);
/* Finds a name, or creates a rule for it. Returns 0, -ENOMEM, or the builder's error. */
int names_get(struct names *names, struct grammar_builder *b, const char *text, size_t len,
              unsigned line, struct name **ret_name);
/* Finds a name; NULL: there is none. */
struct name *names_find(const struct names *names, const char *text);
/* Checks that all names are defined. */
int names_check(const struct names *names, struct inf_err *reterr);
