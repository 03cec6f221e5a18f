/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who reads what in a graph: the ground for fusing operations. */

#include "graph/graph.h"

struct graph_users {
    uint32_t *n;     /* [nodes]: how many inputs of other nodes this value is */
    graph_ref *last; /* [nodes]: the last node that reads it */
};

/* -ENOMEM */
int graph_users_init(struct graph_users *u, const struct graph *g);
void graph_users_done(struct graph_users *u);
/* The only reader of @ref when it is a node of kind @op; else none. */
graph_ref graph_only_user(const struct graph_users *u, const struct graph *g, graph_ref ref,
                          enum graph_op op);
/* The other factor of the gated unit @glu, of which @ref is one, when both are products of the
 * same input that nobody else reads; else none. */
graph_ref graph_glu_other(const struct graph_users *u, const struct graph *g, graph_ref glu,
                          graph_ref ref);
