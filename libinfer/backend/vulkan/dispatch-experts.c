/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches that select experts, multiply by their matrices, and mix their results.
 *
 * A slot is a pair of a row and an expert that the row uses. A product by experts has a row for
 * each slot. If not all matrices fit into one binding, there is a dispatch for each range of
 * experts, which computes the rows of these experts.
 */
#include <errno.h>

#include "backend/vulkan/dispatch.h"
#include "backend/vulkan/push.h"
#include "core/err.h"

/* Binds the matrices of experts @first … @first + @n - 1. */
static struct vkb_bind bind_matrices(const struct weight *w, const struct emit_place *p,
                                     uint32_t first, uint32_t n, uint32_t push_at)
{
    return emit_weight(w, p, first * p->stride, (n - 1) * p->stride + p->bytes, push_at);
}

static struct push_matmul experts_push(const struct emit *e, const struct emit_product *p,
                                       uint64_t row_bytes)
{
    const uint32_t slots = e->plan->values[p->dst].slots;

    return (struct push_matmul){
        .K = p->w->cols,
        .N = p->w->rows,
        .row_bytes = (uint32_t)row_bytes,
        .row_bytes2 = (uint32_t)row_bytes,
        .ld_y = p->w->rows,
        .rows_kept = e->plan->values[p->dst].rows_kept,
        .act = p->act,
        .slots = slots,
        .x_slots = graph_node(e->g, p->src)->slots > 0,
    };
}

int emit_experts(struct emit *e, const struct emit_product *p, enum vkb_class class,
                 const struct vkb_bind *bias)
{
    struct emit_place m, m2 = {.aligned = true};
    struct push_matmul push;
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind grid;
    uint32_t step;
    bool packs;
    int r;

    r = emit_place(e->plan, p->w, &m);
    if (r == 0 && p->w2)
        r = emit_place(e->plan, p->w2, &m2);
    if (r == 0)
        r = emit_grid(e, p->w, m.dtype, &grid);
    if (r < 0)
        return r;
    const struct vkb_product product = {
        .dtype = m.dtype,
        .K = p->w->cols,
        .N = p->w->rows,
        .glu = p->w2 != NULL,
        .aligned = m.aligned && m2.aligned,
        .experts = true,
    };
    if (!vkb_pick_product(e->caps, &product, class, &choice))
        return emit_none(e, "experts");
    r = emit_pack(e, class, choice.pack, p->src, &packs);
    if (r < 0)
        return r;
    push = experts_push(e, p, m.row_bytes);
    push.has_bias = bias->kind != VKB_BIND_NONE;
    push.expert_bytes = (uint32_t)m.stride;
    push.expert_bytes2 = (uint32_t)m2.stride;
    step = emit_per_range(e, choice.kernel, MAX(m.stride, m2.stride), 1);
    for (uint32_t first = 0; first < p->w->n_experts; first += step) {
        push.first_expert = first;
        push.n_experts = MIN(step, p->w->n_experts - first);
        d = emit_add(e, class, &choice, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->work = (p->w2 ? 2 : 1) * push.slots * m.bytes;
        d->joins = (d->joins && !packs) || first > 0;
        d->binds[0] = bind_matrices(p->w, &m, first, push.n_experts,
                                    offsetof(struct push_matmul, w_offset) / sizeof(uint32_t));
        if (p->w2)
            d->binds[1] = bind_matrices(p->w2, &m2, first, push.n_experts,
                                        offsetof(struct push_matmul, w2_offset) / sizeof(uint32_t));
        d->binds[2] = choice.pack == VKB_PACK_NONE
                          ? emit_value(p->src)
                          : (struct vkb_bind){.kind = VKB_BIND_PACKED, .index = choice.pack};
        d->binds[3] = emit_value(p->dst);
        d->binds[4] = *bias;
        d->binds[6] = emit_value(p->route);
        d->binds[SLOT_GRID] = grid;
        d->count[0].n = DIV_UP(push.N, choice.columns);
        d->count[1] = (struct vkb_count){emit_rows(e, p->dst), choice.rows, .times = push.slots};
    }
    return 0;
}

int emit_route(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct push_route push = {
        .n_experts = n->width,
        .n_used = n->route.n_used,
        .rows_kept = n->rows_kept,
        .score = n->route.score,
        .normalized = n->route.normalized,
        .has_bias = n->bias.data != NULL,
        .has_factors = n->w.data != NULL,
        .scale = n->route.scale,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind bias, factors;

    if (!vkb_pick_plain(e->caps, "experts/route", &choice))
        return emit_none(e, "experts");
    choice.spec[0] = e->caps->subgroup_size;
    if (vkb_const_add(e->plan, &n->bias, &bias) < 0 || vkb_const_add(e->plan, &n->w, &factors) < 0)
        return -ENOMEM;
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[0] = bias;
    d->binds[5] = factors;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    d->count[0].n = 1;
    return 0;
}

int emit_mix(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct push_mix push = {
        .width = n->width,
        .slots = e->plan->values[n->src[0]].slots,
        .rows_kept = n->rows_kept,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, "experts/mix", &choice))
        return emit_none(e, "experts");
    emit_spec(&choice, SPEC_ELEM_WHOLE, n->width % 4 == 0);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[5] = emit_value(n->src[1]);
    d->binds[3] = emit_value(dst);
    d->count[0].n = DIV_UP(push.width, 4 * choice.spec[0]);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    return 0;
}
