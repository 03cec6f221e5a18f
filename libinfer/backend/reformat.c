/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/reformat.h"

#include <errno.h>

#include "core/err.h"
#include "core/half.h"
#include "quant/dtype.h"

static int decode_bf16(const struct weight *w, uint16_t *copy)
{
    _cleanup_free_ float *row = NEW(float, w->cols);
    uint64_t row_bytes = 0;

    if (!row || !dtype_row_bytes(w->dtype, w->cols, &row_bytes))
        return -ENOMEM;
    for (uint32_t i = 0; i < w->rows; i++) {
        dtype_info(w->dtype)->decode((const unsigned char *)w->data + i * row_bytes, row, w->cols);
        for (uint32_t j = 0; j < w->cols; j++)
            copy[(size_t)i * w->cols + j] = bf16_from_f32(row[j]);
    }
    return 0;
}

/* BF16 is the only format that is asked for. */
static int copy_bf16(struct reformat *rf, struct weight *w)
{
    uint64_t known;
    const void **key;
    uint16_t *copy;
    int r;

    if (!map_find(&rf->copies, &w->data, sizeof(w->data), &known)) {
        key = arena_alloc(&rf->arena, sizeof(*key));
        copy = arena_alloc(&rf->arena, (size_t)w->rows * w->cols * sizeof(*copy));
        if (!key || !copy)
            return -ENOMEM;
        *key = w->data;
        known = (uintptr_t)copy;
        r = decode_bf16(w, copy);
        if (r == 0)
            r = map_put(&rf->copies, key, sizeof(*key), known);
        if (r < 0)
            return r;
    }
    w->data = (const void *)(uintptr_t)known;
    w->dtype = INF_DTYPE_BF16;
    return 0;
}

void reformat_done(struct reformat *rf)
{
    map_done(&rf->copies);
    arena_done(&rf->arena);
    *rf = (struct reformat){0};
}

int reformat_graph(const struct backend *backend, const struct graph *g, struct reformat *rf,
                   struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *copy = NULL;
    int r = graph_new(&copy);

    for (size_t i = 0; r == 0 && i < graph_n_nodes(g); i++) {
        struct graph_node node = *graph_node(g, (graph_ref)i);

        if (node.op == GRAPH_MATMUL && backend->ops->product_dtype &&
            backend->ops->product_dtype(backend, node.w.dtype) == INF_DTYPE_BF16 &&
            node.w.dtype != INF_DTYPE_BF16)
            r = copy_bf16(rf, &node.w);
        graph_append(copy, node);
    }
    if (r < 0)
        return err_set(reterr, ENOMEM, "no memory for the weights as BF16");
    r = graph_error(copy, reterr);
    if (r == 0)
        *ret_graph = STEAL(copy);
    return r;
}
