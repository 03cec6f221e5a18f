/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the order that the rows and columns of a recurrent layer of a GGUF file have in a
 * directory.
 *
 * This reverses what source-order.c does. In addition, GGUF files have -exp(A_log) instead of
 * A_log.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "convert/dir.h"
#include "convert/source-impl.h"
#include "core/half.h"
#include "model/arch.h"

/* Returns the place in a GGUF file of element @i of value heads of @head elements. */
static uint32_t tiled(const struct hparams_delta *d, uint32_t i, uint32_t head)
{
    const uint32_t h = i / head, each = d->n_v_heads / d->n_k_heads;

    return (h % each * d->n_k_heads + h / each) * head + i % head;
}

static uint32_t *order_heads(struct dir *d, const struct value_heads *values, uint32_t n)
{
    uint32_t *order = arena_alloc(&d->arena, MAX(n, 1u) * sizeof(*order));

    for (uint32_t i = 0; order && i < n; i++)
        order[i] = i < values->first ? i
                                     : values->first + tiled(&d->model->hp->delta,
                                                             i - values->first, values->head);
    return order;
}

/* Joins the two matrices of a recurrent layer of Qwen3-Next: in directories, queries, keys, values
 * and gates of each key head follow each other. */
static int order_joined(struct dir *d, uint32_t i_layer, struct dir_entry *e)
{
    const struct hparams_delta *p = &d->model->hp->delta;
    const uint32_t values = p->n_v_heads / p->n_k_heads * p->v_dim;
    const uint32_t parts[] = {p->k_dim, p->k_dim, values, values};
    uint32_t *order, n = 0;

    e->n_first = e->w.rows;
    e->more = *layer_w(d->model, i_layer, SLOT_DELTA_GATE);
    e->w.rows += e->more.rows;
    order = arena_alloc(&d->arena, e->w.rows * sizeof(*order));
    if (!order)
        return -ENOMEM;
    for (uint32_t h = 0; h < p->n_k_heads; h++)
        for (uint32_t i = 0, first = 0; i < ARRAY_SIZE(parts); first += p->n_k_heads * parts[i++])
            for (uint32_t j = 0; j < parts[i]; j++)
                order[n++] = first + h * parts[i] + j;
    e->rows = order;
    return 0;
}

/* Returns the logarithm A of which @x is -exp(A): the number with the fewest bits, if there are
 * several. */
static float log_of(float x)
{
    const double a = log(-(double)x);
    const float half = bf16_to_f32(bf16_from_f32((float)a));

    return (float)-exp((double)half) == x ? half : (float)a;
}

/* Gives a vector its order and its numbers. */
static void order_vector(const struct dir *d, enum slot slot, const uint32_t *order, float *x,
                         float *from, uint32_t n)
{
    memcpy(from, x, n * sizeof(*x));
    for (uint32_t i = 0; i < n; i++) {
        x[i] = from[order ? order[i] : i];
        if (slot == SLOT_DELTA_LOG_A && d->model->hp->delta.negated)
            x[i] = log_of(x[i]);
    }
}

int dir_order_entry(struct dir *d, const struct arch_slot *s, uint32_t i_layer, struct dir_entry *e)
{
    const enum slot slot = (enum slot)s->id;
    const bool interleaved = d->model->hp->delta.interleaved;
    struct value_heads values = {0, 0, false};
    uint32_t *order = NULL;

    e->taps = slot == SLOT_DELTA_CONV;
    e->small |= e->taps;
    if (slot == SLOT_DELTA_QKV && !s->hf)
        return order_joined(d, i_layer, e);
    if (interleaved && source_value_heads(&d->model->hp->delta, slot, &values)) {
        order = order_heads(d, &values, values.columns || e->vector ? e->w.cols : e->w.rows);
        if (!order)
            return -ENOMEM;
    }
    if (e->vector) {
        _cleanup_free_ float *from = NEW(float, e->w.cols);

        if (!from)
            return -ENOMEM;
        /* The entry owns the numbers. */
        order_vector(d, slot, order, (float *)(uintptr_t)e->w.data, from, e->w.cols);
        return 0;
    }
    if (order && values.columns) {
        struct inf_err err;

        e->columns = order;
        return source_order_swaps(order, e->w.cols, &err);
    }
    e->rows = order;
    return 0;
}
