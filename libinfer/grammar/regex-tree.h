/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tree of a regular expression, in which anchors and look-ahead have not been resolved. */

#include "core/arena.h"
#include "grammar/regex.h"

enum tree_kind {
    TREE_NODE,      /* texts without anchors */
    TREE_START,     /* ^ */
    TREE_END,       /* $ */
    TREE_SEQ,       /* a text of each child, in order */
    TREE_ALT,       /* a text of one of the children */
    TREE_REPEAT,    /* texts of the only child, repeated */
    TREE_AHEAD,     /* (?=…) */
    TREE_NOT_AHEAD, /* (?!…) */
};

struct tree {
    enum tree_kind kind;
    bool has_anchor; /* an anchor or look-ahead is inside */
    uint32_t min, max;
    grammar_node node;
    struct tree *children, *next;
};

/* Parses a pattern. The tree belongs to @arena. */
int regex_parse(struct grammar_builder *b, struct arena *arena, const char *pattern, size_t len,
                unsigned flags, const struct tree **ret_tree, struct inf_err *reterr);
