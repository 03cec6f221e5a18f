/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a graph between two layers.
 *
 * Nodes are stored in an order of evaluation, so a cut is a position in the list of nodes: no node
 * before the cut reads a node behind it. Only one value may cross the cut, because a graph has one
 * input and one output. In decoders this value is the residual stream. A cut is possible not only
 * between two layers, but also between the attention and the feed-forward part of one layer,
 * because only the residual stream crosses there, too. Therefore several positions can be possible
 * between the attention nodes of two layers. The last of these positions is the border, so that
 * layers stay whole.
 */
#include "graph/graph.h"

#include <errno.h>

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

/* Returns the only value of nodes 0 … @last that a node behind @last reads, or GRAPH_NONE if there
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

        if (node->op == GRAPH_ATTENTION && node->attn.i_layer < i_layer)
            begin = MAX(begin, i);
        else if (node->op == GRAPH_ATTENTION)
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

/* Appends the nodes behind @last to @high. An input node of @high replaces @value. */
static void append_high(struct graph *high, const struct graph *g, graph_ref last, graph_ref value,
                        uint32_t i_layer)
{
    graph_input(high, graph_node(g, value)->width);
    for (graph_ref i = last + 1; i < (graph_ref)graph_n_nodes(g); i++) {
        struct graph_node node = *graph_node(g, i);

        for (unsigned j = 0; j < ARRAY_SIZE(node.src); j++) {
            assert(node.src[j] < 0 || node.src[j] > last || node.src[j] == value);
            if (node.src[j] >= 0)
                node.src[j] = MAX(node.src[j] - last, 0);
        }
        if (node.op == GRAPH_ATTENTION)
            node.attn.i_layer -= i_layer;
        graph_append(high, node);
    }
}

int graph_cut(const struct graph *g, uint32_t i_layer, struct graph **ret_low,
              struct graph **ret_high, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *low = NULL, *high = NULL;
    graph_ref last, value;
    int r;

    r = graph_error(g, reterr);
    if (r == 0)
        r = graph_border(g, i_layer, &last, &value, reterr);
    if (r < 0)
        return r;
    if (graph_new(&low) < 0 || graph_new(&high) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    append_low(low, g, last, value);
    append_high(high, g, last, value, i_layer);
    r = graph_error(low, reterr);
    if (r == 0)
        r = graph_error(high, reterr);
    if (r < 0)
        return r;
    *ret_low = STEAL(low);
    *ret_high = STEAL(high);
    return 0;
}
