/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the inputs of products to the order of their matrices.
 *
 * Blocks of a coded matrix with an order have the codes in the order of places (backend/joined.h).
 * Matrices with the same input usually have the same order, and then share the node that prepares
 * this input.
 */
#include <errno.h>

#include "backend/vulkan/program.h"
#include "core/err.h"

static const uint32_t *order_of(const struct graph_node *n)
{
    return n->op == GRAPH_MATMUL && n->w.coded ? n->w.coded->order : NULL;
}

static bool has_order(const struct graph *g)
{
    for (size_t i = 0; i < graph_n_nodes(g); i++)
        if (order_of(graph_node(g, (graph_ref)i)))
            return true;
    return false;
}

/* Returns the largest group of columns that a node can have and that divides @width. */
static uint32_t order_group(uint32_t width)
{
    uint32_t group = TURN_GROUP_MAX;

    while (width % group != 0)
        group--;
    return group;
}

/* Returns the preparation for an order. *@newest is the newest preparation, or NULL. */
static const struct turn_params *order_turn(struct arena *arena, const uint32_t *order,
                                            uint32_t width, struct turn_params **newest)
{
    if (!*newest || (*newest)->order != order) {
        *newest = arena_zalloc(arena, sizeof(**newest));
        if (*newest)
            **newest =
                (struct turn_params){.width = width, .group = order_group(width), .order = order};
    }
    return *newest;
}

/* Appends the nodes of @g to @to. refs[i] becomes the reference of node i. */
static int append_ordered(const struct graph *g, struct arena *arena, struct graph *to,
                          graph_ref *refs)
{
    struct turn_params *newest = NULL;

    for (size_t i = 0; i < graph_n_nodes(g); i++) {
        struct graph_node node = *graph_node(g, (graph_ref)i);
        const uint32_t *order = order_of(&node);

        graph_begin_layer(to, node.layer);
        for (size_t j = 0; j < ARRAY_SIZE(node.src); j++)
            if (node.src[j] >= 0)
                node.src[j] = refs[node.src[j]];
        if (order) {
            if (!order_turn(arena, order, node.w.cols, &newest))
                return -ENOMEM;
            node.src[0] = graph_turn(to, node.src[0], newest);
        }
        refs[i] = graph_append(to, node);
    }
    return 0;
}

int vkb_order(const struct graph *g, struct arena *arena, struct graph **ret_graph,
              struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *copy = NULL;
    _cleanup_free_ graph_ref *refs = NULL;
    const struct state_group *groups;
    uint32_t n_groups;
    int r;

    if (!has_order(g)) {
        *ret_graph = NULL;
        return 0;
    }
    refs = NEW(graph_ref, graph_n_nodes(g));
    if (!refs || graph_new(&copy) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    groups = graph_groups(g, &n_groups);
    for (uint32_t i = 0; i < n_groups; i++)
        graph_add_group(copy, &groups[i]);
    r = append_ordered(g, arena, copy, refs);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    r = graph_error(copy, reterr);
    if (r == 0)
        *ret_graph = STEAL(copy);
    return r;
}
