/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the readers of each value of a graph and finds the last one, in one pass over the nodes.
 */
#include "graph/users.h"

#include <errno.h>

int graph_users_init(struct graph_users *u, const struct graph *g)
{
    const size_t n = graph_n_nodes(g);

    *u = (struct graph_users){.n = NEW(uint32_t, n), .last = NEW(graph_ref, n)};
    if (!u->n || !u->last) {
        graph_users_done(u);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const struct graph_node *node = graph_node(g, (graph_ref)i);

        for (size_t j = 0; j < ARRAY_SIZE(node->src); j++) {
            if (node->src[j] < 0)
                continue;
            u->n[node->src[j]]++;
            u->last[node->src[j]] = (graph_ref)i;
        }
    }
    return 0;
}

void graph_users_done(struct graph_users *u)
{
    free(u->n);
    free(u->last);
    *u = (struct graph_users){0};
}

graph_ref graph_only_user(const struct graph_users *u, const struct graph *g, graph_ref ref,
                          enum graph_op op)
{
    if (u->n[ref] != 1 || graph_node(g, u->last[ref])->op != op)
        return GRAPH_NONE;
    return u->last[ref];
}

graph_ref graph_glu_other(const struct graph_users *u, const struct graph *g, graph_ref glu,
                          graph_ref ref)
{
    const struct graph_node *n = graph_node(g, glu);
    const graph_ref other = n->src[0] == ref ? n->src[1] : n->src[0];

    if (other == ref || u->n[other] != 1 || graph_node(g, other)->op != GRAPH_MATMUL ||
        graph_node(g, other)->src[0] != graph_node(g, ref)->src[0])
        return GRAPH_NONE;
    return other;
}
