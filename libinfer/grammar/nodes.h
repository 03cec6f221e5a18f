/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A growing list of nodes, used by the parsers of grammars. A struct of zeros is an empty list. */

#include "core/array.h"
#include "grammar/builder.h"

struct nodes {
    grammar_node *list;
    size_t n, cap;
};

static inline int nodes_add(struct nodes *nodes, grammar_node node)
{
    const int r = ARRAY_GROW(nodes->list, nodes->cap, nodes->n + 1);

    if (r == 0)
        nodes->list[nodes->n++] = node;
    return r;
}

static inline void nodes_done(struct nodes *nodes)
{
    free(nodes->list);
}

#define _cleanup_nodes_ _cleanup_(nodes_done)
