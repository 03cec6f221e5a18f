/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Readers of each value of a graph, which backends need to fuse operations. */

#include "graph/graph.h"

struct graph_users {
    uint32_t *n;     /* [nodes]: how many inputs of other nodes read this value */
    graph_ref *last; /* [nodes]: the last node that reads it */
};

/* -ENOMEM */
int graph_users_init(struct graph_users *u, const struct graph *g);
void graph_users_done(struct graph_users *u);
/* The only reader of @ref if it is a node of kind @op; else none. */
graph_ref graph_only_user(const struct graph_users *u, const struct graph *g, graph_ref ref,
                          enum graph_op op);
/* @ref is a factor of the gated unit @glu. Returns the other factor if both are products of the
 * same input and no other node reads them; else none. */
graph_ref graph_glu_other(const struct graph_users *u, const struct graph *g, graph_ref glu,
                          graph_ref ref);
