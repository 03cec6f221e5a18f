/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tells for each value of a graph how many inputs read it, and which node reads it last. Backends
 * need this to fuse operations. */

#include "graph/graph.h"

struct graph_users {
    uint32_t *n;     /* [nodes]: how many inputs of nodes are this value */
    graph_ref *last; /* [nodes]: the last node that reads this value */
};

/* Returns 0 or -ENOMEM. */
int graph_users_init(struct graph_users *u, const struct graph *g);
void graph_users_done(struct graph_users *u);
/* Returns the only reader of @ref if its operation is @op; else GRAPH_NONE. */
graph_ref graph_only_user(const struct graph_users *u, const struct graph *g, graph_ref ref,
                          enum graph_op op);
/* Returns the other factor of the gated unit @glu; @ref is one of its two factors. Returns
 * GRAPH_NONE unless the other factor is a matrix product with the same input as @ref and is read
 * only by @glu. */
graph_ref graph_glu_other(const struct graph_users *u, const struct graph *g, graph_ref glu,
                          graph_ref ref);
