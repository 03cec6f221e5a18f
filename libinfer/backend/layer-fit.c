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

#include "core/err.h"
#include "quant/dtype.h"

static uint64_t weight_bytes(const struct weight *w)
{
    uint64_t row_bytes = 0, bytes = 0;

    if (w->data && dtype_row_bytes(w->dtype, w->cols, &row_bytes))
        size_mul(row_bytes, w->rows, &bytes);
    return bytes;
}

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
            bytes += weight_bytes(&node->w);
    }
    return bytes;
}

int layer_sizes_init(struct layer_sizes *sizes, const struct graph *g,
                     const struct kv_layout *layout, struct inf_err *reterr)
{
    const uint32_t n = layout->groups[0].n_layers;
    const graph_ref end = (graph_ref)graph_n_nodes(g);
    struct kv_layout layer = *layout;
    struct layer_sizes s = {.n_layers = n, .weights = NEW(uint64_t, n)};
    graph_ref last = end - 1, at = 0, value;
    int r = 0;

    assert(n > 0);

    if (!s.weights)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t i = 0; r == 0 && i < n; i++, at = last + 1) {
        r = graph_border(g, i, &last, &value, reterr);
        if (r == 0)
            *(i == 0 ? &s.embd : &s.weights[i - 1]) = bytes_between(g, at, last + 1);
    }
    if (r < 0) {
        free(s.weights);
        return r;
    }
    /* If the last layer computes only rows with logits after its attention, the graph cannot be cut
     * between this layer and the head. */
    if (graph_border(g, n, &last, &value, NULL) < 0)
        last = at - 1;
    s.weights[n - 1] = bytes_between(g, at, last + 1);
    s.head = bytes_between(g, last + 1, end);
    layer.groups[0].n_layers = 1;
    if (!size_mul(kv_layout_block_bytes(&layer, 0), layout->n_blocks[0], &s.kv))
        s.kv = UINT64_MAX;
    *sizes = s;
    return 0;
}

void layer_sizes_done(struct layer_sizes *sizes)
{
    free(sizes->weights);
    sizes->weights = NULL;
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
    while (n_fit < n && take_bytes(&left, sizes->kv) &&
           take_bytes(&left, sizes->weights[n - 1 - n_fit]))
        n_fit++;
    *ret_whole = n_fit == n && take_bytes(&left, sizes->embd);
    return n_fit;
}
