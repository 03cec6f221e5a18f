/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies weights to the format that a device multiplies fastest. reformat.h gives the reason.
 */
#include "backend/reformat.h"

#include <errno.h>
#include <string.h>

#include "backend/cpu/matmul/matmul.h"
#include "core/err.h"
#include "quant/dtype.h"

/* Identifies a copy. The struct has no padding, because keys are compared as bytes. */
struct copy_key {
    const void *data;
    uint32_t dtype, packed;
};

static uint64_t copy_bytes(const struct weight *w, struct product_format to)
{
    uint64_t row = 0;

    if (to.packed)
        return ALIGN_UP((uint64_t)w->rows, MATMUL_N_STEP) * matmul_packed_bytes(to.dtype, w->cols);
    dtype_row_bytes(to.dtype, w->cols, &row);
    return w->rows * row;
}

/* Writes @row, which is row @i of @w, to its place in @copy. */
static void put_row(const struct weight *w, struct product_format to, uint32_t i, const float *row,
                    void *copy)
{
    const size_t at = (size_t)i * w->cols;

    if (to.packed)
        matmul_pack(to.dtype, row, i, w->cols, copy);
    else
        memcpy((float *)copy + at, row, w->cols * sizeof(float));
}

static int fill_copy(const struct weight *w, struct product_format to, void *copy)
{
    _cleanup_free_ float *row = NEW(float, w->cols);
    uint64_t row_bytes = 0;

    if (!row || !dtype_row_bytes(w->dtype, w->cols, &row_bytes))
        return -ENOMEM;
    for (uint32_t i = 0; i < w->rows; i++) {
        dtype_info(w->dtype)->decode((const unsigned char *)w->data + i * row_bytes, row, w->cols);
        put_row(w, to, i, row, copy);
    }
    return 0;
}

/* Makes @w point to its copy in the format @to, which is packed or F32. If there is no such copy,
 * makes it first. */
static int copy_weight(struct reformat *rf, struct weight *w, struct product_format to)
{
    const struct copy_key wanted = {w->data, to.dtype, to.packed};
    struct copy_key *key;
    uint64_t known;
    void *copy;
    int r;

    if (!map_find(&rf->copies, &wanted, sizeof(wanted), &known)) {
        key = arena_alloc(&rf->arena, sizeof(*key));
        copy = arena_zalloc(&rf->arena, copy_bytes(w, to) + MATMUL_ALIGN);
        if (!key || !copy)
            return -ENOMEM;
        *key = wanted;
        known = ALIGN_UP((uintptr_t)copy, (uintptr_t)MATMUL_ALIGN);
        r = fill_copy(w, to, (void *)(uintptr_t)known);
        if (r == 0)
            r = map_put(&rf->copies, key, sizeof(*key), known);
        if (r < 0)
            return r;
    }
    w->data = (const void *)(uintptr_t)known;
    w->dtype = to.dtype;
    w->packed = to.packed;
    return 0;
}

void reformat_done(struct reformat *rf)
{
    map_done(&rf->copies);
    arena_done(&rf->arena);
    *rf = (struct reformat){0};
}

/* Marks the product whose result is @ref. If @ref is a sum, marks all products that are its
 * terms. */
static void mark_values(const struct graph *g, graph_ref ref, bool *values)
{
    const struct graph_node *n = graph_node(g, ref);

    if (n->op == GRAPH_MATMUL)
        values[ref] = true;
    if (n->op != GRAPH_ADD)
        return;
    mark_values(g, n->src[0], values);
    mark_values(g, n->src[1], values);
}

/* Returns an array that says for each node whether it is a product that computes values of
 * attention. Returns NULL if memory is short. */
static bool *find_values(const struct graph *g)
{
    bool *values = NEW(bool, graph_n_nodes(g));

    for (size_t i = 0; values && i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node(g, (graph_ref)i);

        if (n->op == GRAPH_ATTENTION && !n->attn.memory)
            mark_values(g, n->src[2], values);
        else if (n->op == GRAPH_STORE)
            mark_values(g, n->src[1], values);
    }
    return values;
}

int reformat_graph(const struct backend *backend, const struct graph *g, struct reformat *rf,
                   struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *copy = NULL;
    _cleanup_free_ bool *values = find_values(g);
    int r = values ? graph_new(&copy) : -ENOMEM;

    for (size_t i = 0; r == 0 && i < graph_n_nodes(g); i++) {
        struct graph_node node = *graph_node(g, (graph_ref)i);

        /* The matrices of experts are used in place, because a copy of so many matrices would need
         * much memory. */
        if (node.op == GRAPH_MATMUL && node.w.n_experts == 0 && backend->ops->product_format) {
            const struct product_format to =
                backend->ops->product_format(backend, node.w.dtype, values[i]);

            if (to.packed || to.dtype != node.w.dtype)
                r = copy_weight(rf, &node.w, to);
        }
        graph_append(copy, node);
    }
    if (r < 0)
        return err_set(reterr, ENOMEM, "no memory for copies of the weights");
    r = graph_error(copy, reterr);
    if (r == 0)
        *ret_graph = STEAL(copy);
    return r;
}
