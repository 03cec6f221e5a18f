/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes how many layers of a model fit into a device's memory.
 *
 * A weight that several nodes of the graph use is counted only at the last of these nodes. So a
 * table that is both head and embedding belongs to the head, and the embedding then has no weight
 * of its own.
 */
#include "backend/layer-fit.h"

#include <errno.h>

#include "backend/joined.h"
#include "core/err.h"

/* Returns whether a later node has the same weight as @ref. */
static bool comes_again(const struct graph *g, graph_ref ref)
{
    const void *data = graph_node(g, ref)->w.data;

    for (graph_ref i = ref + 1; i < (graph_ref)graph_n_nodes(g); i++)
        if (graph_node(g, i)->w.data == data)
            return true;
    return false;
}

/* Returns the bytes of the weights of nodes @first … @end - 1. */
static uint64_t bytes_between(const struct graph *g, graph_ref first, graph_ref end)
{
    uint64_t bytes = 0;

    for (graph_ref i = first; i < end; i++) {
        const struct graph_node *node = graph_node(g, i);

        bytes += weight_bytes(&node->bias);
        if (!comes_again(g, i))
            bytes += joined_bytes(&node->w);
    }
    return bytes;
}

/* Returns whether attention in a layer from @i_layer on reads keys and values that a layer before
 * @i_layer has stored. */
static bool shares_keys(const struct graph *g, uint32_t i_layer)
{
    uint32_t n_low[STATE_GROUPS_MAX];

    graph_layers_below(g, i_layer, n_low);
    for (graph_ref i = 0; i < (graph_ref)graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node(g, i);

        if (node->op == GRAPH_ATTENTION && node->layer >= i_layer &&
            node->attn.i_layer < n_low[node->attn.i_group])
            return true;
    }
    return false;
}

/* Returns the bytes of the state of layer @i_layer of the model in all blocks. */
static uint64_t state_bytes(const struct graph *g, const struct kv_layout *layout, uint32_t i_layer)
{
    uint32_t n_low[STATE_GROUPS_MAX], n_high[STATE_GROUPS_MAX];
    struct kv_layout layer;
    uint64_t sum = 0;

    graph_layers_below(g, i_layer, n_low);
    graph_layers_below(g, i_layer + 1, n_high);
    layer = kv_layout_part(layout, n_low, n_high);
    for (uint32_t i = 0; i < layout->n_groups; i++) {
        uint64_t bytes;

        if (!size_mul(kv_layout_block_bytes(&layer, i), layout->n_blocks[i], &bytes) ||
            !size_add(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static int measure(struct layer_sizes *s, const struct graph *g, const struct kv_layout *layout,
                   struct inf_err *reterr)
{
    const graph_ref end = (graph_ref)graph_n_nodes(g);
    const uint32_t n = s->n_layers;
    graph_ref last = end - 1, at = 0, value;
    int r = 0;

    for (uint32_t i = 0; i < n; i++, at = last + 1) {
        r = graph_border(g, i, &last, &value, reterr);
        if (r < 0)
            return r;
        if (shares_keys(g, i))
            return err_set(reterr, EOPNOTSUPP,
                           "the model cannot be cut: layers share keys and values");
        *(i == 0 ? &s->embd : &s->weights[i - 1]) = bytes_between(g, at, last + 1);
        s->kv[i] = state_bytes(g, layout, i);
    }
    /* If the last layer computes only rows with logits after its attention, the graph cannot be cut
     * between this layer and the head. */
    if (graph_border(g, n, &last, &value, NULL) < 0)
        last = at - 1;
    s->weights[n - 1] = bytes_between(g, at, last + 1);
    s->head = bytes_between(g, last + 1, end);
    return 0;
}

int layer_sizes_init(struct layer_sizes *sizes, const struct graph *g,
                     const struct kv_layout *layout, struct inf_err *reterr)
{
    const uint32_t n = graph_n_layers(g);
    struct layer_sizes s = {.n_layers = n, .weights = NEW(uint64_t, n), .kv = NEW(uint64_t, n)};
    int r;

    assert(n > 0);

    r = s.weights && s.kv ? measure(&s, g, layout, reterr)
                          : err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        layer_sizes_done(&s);
    else
        *sizes = s;
    return r;
}

void layer_sizes_done(struct layer_sizes *sizes)
{
    free(sizes->weights);
    free(sizes->kv);
    sizes->weights = sizes->kv = NULL;
}

/* Subtracts @bytes from *@left. Returns false if fewer bytes than @bytes are left. */
static bool take_bytes(uint64_t *left, uint64_t bytes)
{
    if (bytes > *left)
        return false;
    *left -= bytes;
    return true;
}

uint32_t layer_fit(const struct layer_sizes *sizes, uint64_t budget, bool *ret_whole)
{
    const uint32_t n = sizes->n_layers;
    uint64_t left = budget;
    uint32_t n_fit = 0;

    *ret_whole = false;
    if (!take_bytes(&left, sizes->scratch) || !take_bytes(&left, sizes->head))
        return 0;
    while (n_fit < n && take_bytes(&left, sizes->kv[n - 1 - n_fit]) &&
           take_bytes(&left, sizes->weights[n - 1 - n_fit]))
        n_fit++;
    *ret_whole = n_fit == n && take_bytes(&left, sizes->embd);
    return n_fit;
}
