/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the state of a model into groups (graph/state.h).
 *
 * Layers whose state has the same shape and the same rule are a group. A model whose layers all
 * keep keys and values of the same shape does not need groups: its store has a single group for all
 * layers, in which layers with a window keep the keys and values of all tokens.
 */
#include "model/arch.h"

/* If this is true, windows alone are a reason for groups, so that blocks behind the window are
 * dropped. */
#define GROUPS_FOR_WINDOWS true

/* The groups in the order of their first layers, and the place of the layer that was added last. */
struct groups {
    struct state_group groups[STATE_GROUPS_MAX + 1];
    uint32_t n;
    struct state_place place;
};

static struct state_group group_of_delta(const struct hparams_delta *d)
{
    const uint32_t n_cols = 2 * d->n_k_heads * d->k_dim + d->n_v_heads * d->v_dim;

    return (struct state_group){.rule = STATE_RECURRENT,
                                .conv_floats = (d->n_taps - 1) * n_cols,
                                .matrix_floats = d->n_v_heads * d->v_dim * d->k_dim};
}

static struct state_group group_of_layer(const struct hparams *hp, uint32_t i_layer)
{
    const uint32_t window = hparams_window(hp, i_layer);

    if (hp->layers[i_layer].kind == LAYER_RECURRENT)
        return group_of_delta(&hp->delta);
    return (struct state_group){.rule = window > 0 ? STATE_WINDOW : STATE_FULL,
                                .n_kv_heads = hparams_n_kv_heads(hp, i_layer),
                                .head_dim = hparams_head_dim(hp, i_layer),
                                .window = window};
}

static bool groups_equal(const struct state_group *a, const struct state_group *b)
{
    return a->rule == b->rule && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim &&
           a->window == b->window;
}

/* Adds a layer to its group. If a model has more than STATE_GROUPS_MAX groups, all further groups
 * count as one, so that there are STATE_GROUPS_MAX + 1 groups; graph_add_group() then refuses the
 * last one. */
static void groups_put(struct groups *gs, const struct state_group *group)
{
    uint32_t i = 0;

    while (i < gs->n && !groups_equal(&gs->groups[i], group))
        i++;
    if (i == gs->n && gs->n <= STATE_GROUPS_MAX) {
        gs->groups[i] = *group;
        gs->n++;
    }
    i = MIN(i, (uint32_t)STATE_GROUPS_MAX);
    gs->place = (struct state_place){i, gs->groups[i].n_layers++};
}

/* Returns whether the layers differ so much that one group cannot hold their state. */
static bool groups_needed(const struct hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layers; i++)
        if (hp->layers[i].kind == LAYER_RECURRENT || hp->layers[i].shared > 0 ||
            hparams_n_kv_heads(hp, i) != hparams_n_kv_heads(hp, 0) ||
            hparams_head_dim(hp, i) != hparams_head_dim(hp, 0) ||
            (GROUPS_FOR_WINDOWS && hparams_window(hp, i) > 0))
            return true;
    return false;
}

/* Divides the layers up to @n - 1 into groups. Layers that read the state of other layers have no
 * state of their own. */
static struct groups groups_of(const struct hparams *hp, uint32_t n)
{
    struct groups gs = {.n = 0};

    for (uint32_t i = 0; i < n; i++)
        if (hp->layers[i].shared == 0) {
            const struct state_group group = group_of_layer(hp, i);

            groups_put(&gs, &group);
        }
    return gs;
}

void groups_add(const struct model *m, struct graph *g)
{
    struct groups gs = groups_of(m->hp, m->hp->n_layers);

    if (!groups_needed(m->hp))
        return;
    for (uint32_t i = 0; i < gs.n; i++) {
        /* An assistant's row sees two tokens that are too old for the model's row at the same
         * position: its window does not include its own token, and has one token more. */
        if (gs.groups[i].rule == STATE_WINDOW && m->assisted)
            gs.groups[i].window += 2;
        graph_add_group(g, &gs.groups[i]);
    }
}

struct state_place group_place(const struct model *m, uint32_t i_layer)
{
    const uint32_t shared = m->hp->layers[i_layer].shared;
    const uint32_t i_owner = shared > 0 ? shared - 1 : i_layer;

    if (m->hp->layers[i_layer].kind == LAYER_PREDICTS)
        return (struct state_place){0, 0};
    if (!groups_needed(m->hp))
        return (struct state_place){0, i_owner};
    return groups_of(m->hp, i_owner + 1).place;
}
