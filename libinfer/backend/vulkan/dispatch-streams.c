/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches of operations on streams and on the statistics of rows. push.h lists the
 * slots and push constants of the kernels.
 */
#include "backend/vulkan/dispatch.h"

#include <errno.h>
#include <string.h>

#include "backend/vulkan/push-turn.h"
#include "backend/vulkan/push.h"

int emit_scale_columns(struct emit *e, const struct graph_node *n, graph_ref dst,
                       enum vkb_class class)
{
    const struct push_elem push = {
        .width = e->plan->values[dst].width,
        .rows_kept = n->rows_kept,
        .factor = 1,
        .period = n->width,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind factors;

    if (!vkb_pick_plain(e->caps, "elem/scale", &choice))
        return emit_none(e, "factors of columns");
    if (vkb_const_add(e->plan, &n->w, &factors) < 0)
        return -ENOMEM;
    emit_spec(&choice, SPEC_ELEM_WHOLE, n->width % 4 == 0);
    emit_spec(&choice, SPEC_SCALE_COLUMNS, 1);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->binds[5] = factors;
    d->count[0].n = DIV_UP(push.width, 4 * choice.spec[0]);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    return 0;
}

int emit_blend(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct push_blend push = {
        .width = n->width / n->blend.n_out,
        .n_in = n->blend.n_in,
        .n_out = n->blend.n_out,
        .rows_kept = n->rows_kept,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind factors;

    if (!vkb_pick_plain(e->caps, "elem/blend", &choice))
        return emit_none(e, "streams");
    if (vkb_const_add(e->plan, &n->w, &factors) < 0)
        return -ENOMEM;
    emit_spec(&choice, SPEC_ELEM_WHOLE, push.width % 4 == 0);
    emit_spec(&choice, SPEC_BLEND_HAS_BASE, n->src[1] >= 0);
    emit_spec(&choice, SPEC_BLEND_HAS_ROWS, n->src[2] >= 0);
    emit_spec(&choice, SPEC_BLEND_HAS_FIXED, n->w.data != NULL);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[0] = factors;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    if (n->src[1] >= 0)
        d->binds[5] = emit_value(n->src[1]);
    if (n->src[2] >= 0)
        d->binds[6] = emit_value(n->src[2]);
    d->count[0].n = DIV_UP(n->width, 4 * choice.spec[0]);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    return 0;
}

/* Adds the pairs, the turns (cos and sin), the factors and the order of @p to the constants. */
static int turn_consts(struct emit *e, const struct turn_params *p, struct vkb_dispatch *d)
{
    const uint64_t n = (uint64_t)p->n_rounds * p->width;
    float *to;

    if (n > 0) {
        if (vkb_const_floats(e->plan, n / 2, &to, &d->binds[0]) < 0)
            return -ENOMEM;
        for (uint64_t i = 0; i < n / 2; i++)
            memcpy(to + i, &(uint32_t){p->pairs[2 * i] | (uint32_t)p->pairs[2 * i + 1] << 16},
                   sizeof(uint32_t));
        if (vkb_const_floats(e->plan, n, &to, &d->binds[1]) < 0)
            return -ENOMEM;
        memcpy(to, p->turns, n * sizeof(float));
    }
    if (p->factors) {
        if (vkb_const_floats(e->plan, p->width, &to, &d->binds[4]) < 0)
            return -ENOMEM;
        memcpy(to, p->factors, p->width * sizeof(float));
    }
    if (p->order) {
        if (vkb_const_floats(e->plan, p->width, &to, &d->binds[5]) < 0)
            return -ENOMEM;
        memcpy(to, p->order, p->width * sizeof(uint32_t));
    }
    return 0;
}

int emit_turn(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct turn_params *p = n->turn;
    const struct push_turn push = {.width = p->width,
                                   .group = p->group,
                                   .n_rounds = p->n_rounds,
                                   .rows_kept = n->rows_kept,
                                   .slots = e->plan->values[dst].slots};
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, "elem/turn", &choice))
        return emit_none(e, "rotations of columns");
    emit_spec(&choice, SPEC_TURN_HAS_FACTORS, p->factors != NULL);
    emit_spec(&choice, SPEC_TURN_HAS_ORDER, p->order != NULL);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    /* All classes of steps use the constants that were added for the first class. */
    if (e->turned != n && turn_consts(e, p, d) < 0)
        return -ENOMEM;
    if (e->turned == n)
        memcpy(d->binds, e->turn_binds, sizeof(e->turn_binds));
    memcpy(e->turn_binds, d->binds, sizeof(e->turn_binds));
    e->turned = n;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->count[0].n = p->width / p->group;
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1, .times = push.slots};
    return 0;
}

int emit_statistics(struct emit *e, const char *name, const struct graph_node *n, graph_ref dst,
                    enum vkb_class class)
{
    const struct push_elem push = {
        .width = n->width,
        .rows_kept = n->rows_kept,
        .factor = n->f,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, name, &choice))
        return emit_none(e, name);
    emit_spec(&choice, SPEC_ELEM_WHOLE, n->width % 4 == 0);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    if (n->src[1] >= 0)
        d->binds[5] = emit_value(n->src[1]);
    d->count[0].n = 1;
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    return 0;
}
