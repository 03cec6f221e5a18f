/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places weights on the device.
 *
 * Most weights have the same layout on the device as in the host's memory. Two kinds of weights get
 * a buffer of their own, a gather: matrices of experts that are not contiguous in the host's
 * memory, and weights with planes, which are joined to blocks. Points of grids, whose indices some
 * formats store, are constants.
 */
#include <errno.h>
#include <string.h>

#include "backend/joined.h"
#include "backend/vulkan/dispatch.h"
#include "core/array.h"
#include "quant/dtype.h"
#include "quant/grid.h"

enum inf_dtype emit_dtype(const struct weight *w)
{
    struct joined j;

    return joined_layout(w, &j) ? j.dtype : w->dtype;
}

/* Returns whether a gather holds the matrices of @w. Weights that begin at the same address can
 * have different rows, because rows of the gates and ups of experts can alternate (row_step). */
static bool gather_holds(const struct vkb_gather *g, const struct weight *w)
{
    return g->w.data == w->data && g->w.experts == w->experts && g->w.rows == w->rows &&
           g->w.cols == w->cols && g->w.row_step == w->row_step &&
           g->w.planes[WEIGHT_SCALES] == w->planes[WEIGHT_SCALES] &&
           g->w.coded_first == w->coded_first;
}

/* Finds the gather of a weight, or adds it. */
static int find_gather(struct plan *plan, const struct weight *w, struct emit_place *p)
{
    for (p->gather = 0; p->gather < plan->n_gathers; p->gather++)
        if (gather_holds(&plan->gathers[p->gather], w))
            return 0;
    if (ARRAY_GROW(plan->gathers, plan->cap_gathers, plan->n_gathers + 1u) < 0)
        return -ENOMEM;
    plan->gathers[plan->n_gathers++] = (struct vkb_gather){.w = *w,
                                                           .dtype = p->dtype,
                                                           .n = MAX(w->n_experts, 1u),
                                                           .row_bytes = p->row_bytes,
                                                           .bytes = p->bytes,
                                                           .stride = p->stride};
    return 0;
}

int emit_place(struct plan *plan, const struct weight *w, struct emit_place *ret)
{
    struct emit_place p = {.dtype = w->dtype, .gather = UINT32_MAX};
    struct joined j;
    const bool joins = joined_layout(w, &j);
    int r = 0;

    if (joins) {
        p.dtype = j.dtype;
        p.row_bytes = j.row_bytes;
    } else if (!dtype_row_bytes(w->dtype, w->cols, &p.row_bytes)) {
        return -EINVAL;
    }
    if (!size_mul(p.row_bytes, w->rows, &p.bytes))
        return -EINVAL;
    p.stride = w->n_experts > 1 ? w->expert_bytes : p.bytes;
    if (joins || w->experts) {
        /* Bindings can start at each matrix of an expert. */
        p.stride = w->n_experts > 1 ? ALIGN_UP(p.bytes, 256u) : p.bytes;
        r = find_gather(plan, w, &p);
    }
    /* Modulo 16, addresses on the device are equal to the host's addresses; gathers begin at a
     * multiple of 16. */
    p.aligned = ((p.gather == UINT32_MAX ? (uintptr_t)w->data : 0) | p.row_bytes |
                 (w->n_experts > 1 ? p.stride : 0)) %
                    16 ==
                0;
    if (r == 0)
        *ret = p;
    return r;
}

struct vkb_bind emit_weight(const struct weight *w, const struct emit_place *p, uint64_t offset,
                            uint64_t size, uint32_t push_at)
{
    if (p->gather != UINT32_MAX)
        return (struct vkb_bind){.kind = VKB_BIND_GATHER,
                                 .index = p->gather,
                                 .offset = offset,
                                 .size = size,
                                 .push_at = push_at};
    return (struct vkb_bind){.kind = VKB_BIND_WEIGHT,
                             .host = (const unsigned char *)w->data + offset,
                             .size = size,
                             .push_at = push_at};
}

/* Adds the table of @w to the constants, unless it is the table that was added last. */
static int emit_table(struct emit *e, const struct weight *w)
{
    struct vkb_bind *bind = &e->grids[INF_DTYPE_NF4];
    float *to;

    if (e->tabled && joined_same_table(e->tabled, w))
        return 0;
    if (vkb_const_floats(e->plan, JOINED_TABLE, &to, bind) < 0)
        return -ENOMEM;
    memcpy(to, joined_table(w), JOINED_TABLE * sizeof(float));
    e->tabled = w;
    return 0;
}

int emit_grid(struct emit *e, const struct weight *w, enum inf_dtype dtype,
              struct vkb_bind *ret_bind)
{
    static const struct {
        const void *points;
        size_t size; /* bytes */
    } grids[INF_DTYPE_N] = {
        [INF_DTYPE_IQ2_XXS] = {grid_iq2_xxs, sizeof(grid_iq2_xxs)},
        [INF_DTYPE_IQ2_XS] = {grid_iq2_xs, sizeof(grid_iq2_xs)},
        [INF_DTYPE_IQ2_S] = {grid_iq2_s, sizeof(grid_iq2_s)},
        [INF_DTYPE_IQ3_XXS] = {grid_iq3_xxs, sizeof(grid_iq3_xxs)},
        [INF_DTYPE_IQ3_S] = {grid_iq3_s, sizeof(grid_iq3_s)},
        [INF_DTYPE_IQ1_S] = {grid_iq1, sizeof(grid_iq1)},
        [INF_DTYPE_IQ1_M] = {grid_iq1, sizeof(grid_iq1)},
    };
    float *to;

    if (dtype == INF_DTYPE_NF4 && emit_table(e, w) < 0)
        return -ENOMEM;
    if (grids[dtype].points && e->grids[dtype].kind == VKB_BIND_NONE) {
        if (vkb_const_floats(e->plan, grids[dtype].size / sizeof(float), &to, &e->grids[dtype]) < 0)
            return -ENOMEM;
        memcpy(to, grids[dtype].points, grids[dtype].size);
    }
    *ret_bind = e->grids[dtype];
    return 0;
}
