/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches of operations on streams and on the statistics of rows. push.h lists the
 * slots and push constants of the kernels.
 */
#include "backend/vulkan/dispatch.h"

#include <errno.h>

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
