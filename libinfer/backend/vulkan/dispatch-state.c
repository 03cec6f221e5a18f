/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches of operations with recurrent state: convolutions and gated delta rules.
 *
 * Each invocation walks the rows of one sequence in order, so the bits of a row do not depend on
 * how a prompt is cut into steps.
 */
#include <errno.h>
#include <math.h>

#include "backend/vulkan/dispatch.h"
#include "backend/vulkan/push.h"
#include "core/err.h"
#include "quant/dtype.h"

#define TEAM_MAX      8u
#define REGISTERS_MAX 64u /* floats of the state that a lane keeps */

static uint32_t state_floats(const struct emit *e, const struct state_place *place)
{
    const struct state_group *group = &e->plan->store->layout.groups[place->i_group];

    return group->conv_floats + group->matrix_floats;
}

static struct vkb_bind bind_state(const struct state_place *place)
{
    return (struct vkb_bind){
        .kind = VKB_BIND_STATE, .index = place->i_layer, .group = place->i_group};
}

int emit_conv(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct push_conv push = {
        .width = n->width,
        .n_taps = n->w.cols,
        .group = n->place.i_group,
        .state_floats = state_floats(e, &n->place),
        .has_bias = n->bias.data != NULL,
    };
    struct vkb_bind w, bias;
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, "elem/conv", &choice))
        return emit_none(e, "convolutions");
    if (vkb_const_add(e->plan, &n->w, &w) < 0 || vkb_const_add(e->plan, &n->bias, &bias) < 0)
        return -ENOMEM;
    emit_spec(&choice, SPEC_CONV_HAS_ACT, n->has_act);
    emit_spec(&choice, SPEC_CONV_ACT, n->act);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[0] = w;
    d->binds[1] = bias;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->binds[4] = bind_state(&n->place);
    d->count[0].n = DIV_UP(push.width, choice.columns);
    d->count[1] = (struct vkb_count){VKB_COUNT_SEQS, 1};
    return 0;
}

/* Adds -exp(A) of each head to the constants. */
static int add_speed(struct emit *e, const struct graph_node *n, struct vkb_bind *ret_bind)
{
    const uint32_t n_heads = n->delta.n_v_heads;
    float *speed;

    if (vkb_const_floats(e->plan, n_heads, &speed, ret_bind) < 0)
        return -ENOMEM;
    dtype_info(n->w.dtype)->decode(n->w.data, speed, n_heads);
    for (uint32_t i = 0; !n->delta.negated && i < n_heads; i++)
        speed[i] = (float)-exp((double)speed[i]);
    return 0;
}

/* Sets the division of a state matrix: a team of lanes has some rows, which fit into registers. A
 * lane has several rows in steps with many rows, because it reads q and k only once for them. */
static uint32_t divide_matrix(const struct emit *e, const struct delta_params *p,
                              enum vkb_class class, struct vkb_choice *choice)
{
    const uint32_t lanes = MIN(e->caps->subgroup_min, e->caps->subgroup_size);
    const uint32_t team = e->caps->subgroup_shuffle ? MIN(TEAM_MAX, MAX(lanes, 1u)) : 1;
    const uint32_t most = MAX(1u, REGISTERS_MAX / DIV_UP(p->k_dim, team));
    const uint32_t rows = class == VKB_MANY ? MIN(4u, most) : 1;

    emit_spec(choice, SPEC_DELTA_K_DIM, p->k_dim);
    emit_spec(choice, SPEC_DELTA_TEAM, team);
    emit_spec(choice, SPEC_DELTA_ROWS, rows);
    return choice->spec[0] / team * rows;
}

int emit_delta(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct delta_params *p = &n->delta;
    const struct push_delta push = {
        .n_k_heads = p->n_k_heads,
        .n_v_heads = p->n_v_heads,
        .v_dim = p->v_dim,
        .group = p->place.i_group,
        .state_floats = state_floats(e, &p->place),
        .state_first = e->plan->store->layout.groups[p->place.i_group].conv_floats,
        .interleaved = p->interleaved,
        .scale = p->scale,
        .eps = p->eps,
    };
    struct vkb_bind speed, dt;
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    uint32_t rows;

    if (!vkb_pick_plain(e->caps, "elem/delta", &choice))
        return emit_none(e, "gated delta rules");
    rows = divide_matrix(e, p, class, &choice);
    if (add_speed(e, n, &speed) < 0 || vkb_const_add(e->plan, &n->bias, &dt) < 0)
        return -ENOMEM;
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[0] = speed;
    d->binds[1] = dt;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->binds[4] = bind_state(&p->place);
    d->binds[5] = emit_value(n->src[1]);
    d->binds[6] = emit_value(n->src[2]);
    d->count[0].n = DIV_UP(p->v_dim, rows);
    d->count[1].n = p->n_v_heads;
    d->count[2] = (struct vkb_count){VKB_COUNT_SEQS, 1};
    return 0;
}
