/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a graph between two layers.
 *
 * Nodes are stored in an order of evaluation, so a cut is a position in the list of nodes: no node
 * before the cut reads a node after it. Only one value may cross the cut, because a graph has one
 * input and one output. In decoders this value is the residual stream. A cut is possible not only
 * between two layers, but also between the attention and the feed-forward part of one layer,
 * because only the residual stream crosses there, too. Therefore several positions can be possible
 * between the attention nodes of two layers. The last of these positions is the border, so that
 * layers stay whole.
 */
#include "graph/graph.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

/* Returns an array with the last node that reads each value. The entry of a value that no node
 * reads is the value itself. Returns NULL if memory is short. */
static graph_ref *find_readers(const struct graph *g)
{
    const graph_ref n = (graph_ref)graph_n_nodes(g);
    graph_ref *reader = NEW(graph_ref, graph_n_nodes(g));

    for (graph_ref i = 0; reader && i < n; i++) {
        const struct graph_node *node = graph_node(g, i);

        reader[i] = i;
        for (unsigned j = 0; j < ARRAY_SIZE(node->src); j++)
            if (node->src[j] >= 0)
                reader[node->src[j]] = i;
    }
    return reader;
}

/* Returns the only value of nodes 0 … @last that a node after @last reads, or GRAPH_NONE if there
 * are several values. */
static graph_ref find_crossing(const graph_ref *reader, graph_ref last)
{
    graph_ref value = GRAPH_NONE;

    for (graph_ref i = 0; i <= last; i++) {
        if (reader[i] <= last)
            continue;
        if (value >= 0)
            return GRAPH_NONE;
        value = i;
    }
    return value;
}

static bool has_state(const struct graph_node *node)
{
    return node->op == GRAPH_ATTENTION || node->op == GRAPH_CONV || node->op == GRAPH_DELTA;
}

/* Returns the place where the node keeps its state. */
static struct state_place place_of(const struct graph_node *node)
{
    if (node->op == GRAPH_CONV)
        return node->place;
    if (node->op == GRAPH_DELTA)
        return node->delta.place;
    return attn_place(&node->attn);
}

static void set_place(struct graph_node *node, struct state_place place)
{
    if (node->op == GRAPH_CONV)
        node->place = place;
    else if (node->op == GRAPH_DELTA)
        node->delta.place = place;
    else
        node->attn.i_layer = place.i_layer;
}

uint32_t graph_n_layers(const struct graph *g)
{
    uint32_t n = 0;

    for (graph_ref i = 0; i < (graph_ref)graph_n_nodes(g); i++)
        if (has_state(graph_node(g, i)))
            n = MAX(n, graph_node(g, i)->layer + 1);
    return n;
}

void graph_layers_below(const struct graph *g, uint32_t i_layer,
                        uint32_t ret_n_low[STATE_GROUPS_MAX])
{
    memset(ret_n_low, 0, STATE_GROUPS_MAX * sizeof(*ret_n_low));
    for (graph_ref i = 0; i < (graph_ref)graph_n_nodes(g); i++)
        if (has_state(graph_node(g, i)) && graph_node(g, i)->layer < i_layer) {
            const struct state_place place = place_of(graph_node(g, i));

            ret_n_low[place.i_group] = MAX(ret_n_low[place.i_group], place.i_layer + 1);
        }
}

int graph_border(const struct graph *g, uint32_t i_layer, graph_ref *ret_last, graph_ref *ret_value,
                 struct inf_err *reterr)
{
    const graph_ref n = (graph_ref)graph_n_nodes(g);
    _cleanup_free_ graph_ref *reader = find_readers(g);
    graph_ref begin = 0, end = n - 1;

    if (!reader)
        return err_set(reterr, ENOMEM, "out of memory");
    for (graph_ref i = n - 1; i >= 0; i--) {
        const struct graph_node *node = graph_node(g, i);

        if (has_state(node) && node->layer < i_layer)
            begin = MAX(begin, i);
        else if (has_state(node))
            end = i;
    }
    for (graph_ref last = end - 1; last >= begin; last--) {
        const graph_ref value = find_crossing(reader, last);

        if (value < 0 || graph_node(g, value)->rows_kept)
            continue;
        *ret_last = last;
        *ret_value = value;
        return 0;
    }
    return err_set(reterr, EOPNOTSUPP,
                   "the model cannot be cut at layer %u: no single value crosses there", i_layer);
}

static void append_low(struct graph *low, const struct graph *g, graph_ref last, graph_ref value)
{
    for (graph_ref i = 0; i <= last; i++)
        graph_append(low, *graph_node(g, i));
    graph_output(low, graph_rows(low, value));
}

/* Changes the place of a node of the upper part: in each group, layers are counted from the first
 * layer that is not in the lower part. Returns false if the node reads keys and values of the lower
 * part. */
static bool move_place(struct graph_node *node, const uint32_t n_low[STATE_GROUPS_MAX])
{
    struct state_place place = place_of(node);

    if (place.i_layer < n_low[place.i_group])
        return false;
    place.i_layer -= n_low[place.i_group];
    set_place(node, place);
    return true;
}

/* Appends the nodes after @last to @high. An input node of @high replaces @value. */
static int append_high(struct graph *high, const struct graph *g, graph_ref last, graph_ref value,
                       uint32_t i_layer, const uint32_t n_low[STATE_GROUPS_MAX],
                       struct inf_err *reterr)
{
    graph_input(high, graph_node(g, value)->width);
    for (graph_ref i = last + 1; i < (graph_ref)graph_n_nodes(g); i++) {
        struct graph_node node = *graph_node(g, i);

        for (unsigned j = 0; j < ARRAY_SIZE(node.src); j++) {
            assert(node.src[j] < 0 || node.src[j] > last || node.src[j] == value);
            if (node.src[j] >= 0)
                node.src[j] = MAX(node.src[j] - last, 0);
        }
        if (has_state(&node) && !move_place(&node, n_low))
            return err_set(reterr, EOPNOTSUPP,
                           "the model cannot be cut: layer %u reads keys and values of a layer "
                           "below the cut",
                           node.layer);
        node.layer -= MIN(node.layer, i_layer);
        graph_append(high, node);
    }
    return 0;
}

/* Adds the groups of @g to both parts, each with its own number of layers. @n_low: the numbers of
 * layers of the lower part. */
static void divide_groups(struct graph *low, struct graph *high, const struct graph *g,
                          const uint32_t n_low[STATE_GROUPS_MAX])
{
    const struct state_group *groups;
    uint32_t n;

    groups = graph_groups(g, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct state_group group = groups[i];

        group.n_layers = n_low[i];
        graph_add_group(low, &group);
        group.n_layers = groups[i].n_layers - n_low[i];
        graph_add_group(high, &group);
    }
}

int graph_cut(const struct graph *g, uint32_t i_layer, struct graph **ret_low,
              struct graph **ret_high, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *low = NULL, *high = NULL;
    uint32_t n_low[STATE_GROUPS_MAX];
    graph_ref last, value;
    int r;

    r = graph_error(g, reterr);
    if (r == 0)
        r = graph_border(g, i_layer, &last, &value, reterr);
    if (r < 0)
        return r;
    if (graph_new(&low) < 0 || graph_new(&high) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    graph_layers_below(g, i_layer, n_low);
    divide_groups(low, high, g, n_low);
    append_low(low, g, last, value);
    r = append_high(high, g, last, value, i_layer, n_low, reterr);
    if (r == 0)
        r = graph_error(low, reterr);
    if (r == 0)
        r = graph_error(high, reterr);
    if (r < 0)
        return r;
    *ret_low = STEAL(low);
    *ret_high = STEAL(high);
    return 0;
}
