/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the order in which GGUF files have the rows and columns of weights.
 *
 * In files of llama, the two halves of the rows of each head of q and k are interleaved. In
 * recurrent layers of Qwen 3.5, several value heads belong to each key head. Value head v of key
 * head k is head v × (number of key heads) + k in GGUF files. In directories it is head k × (value
 * heads of a key head) + v. In directories of Qwen3-Next, queries, keys, values and gates of each
 * key head follow each other in one matrix, and GGUF files have all queries first, then all keys,
 * and so on.
 */
#include <errno.h>
#include <math.h>

#include "convert/source-impl.h"
#include "core/err.h"
#include "model/arch.h"

/* Returns the place, before the conversion, of row @i of a head of @head rows: rows 2k and 2k + 1
 * come from row k of the first and of the second half. The places of other heads follow in the same
 * way. */
static uint32_t paired(uint32_t i, uint32_t head)
{
    const uint32_t at = i % head;

    return i - at + at % 2 * (head / 2) + at / 2;
}

/* Returns the number of heads of q or k whose rows change their order, or 0. */
static uint32_t pair_heads(const struct source *s, enum slot slot, uint32_t i_row)
{
    const struct hparams *hp = s->model->hp;

    if (s->model->arch->desc.ggufs[0].rope_style != ROPE_PAIRS)
        return 0;
    if (slot == SLOT_Q || slot == SLOT_Q_BIAS)
        return hparams_n_heads(hp, i_row);
    return slot == SLOT_K || slot == SLOT_K_BIAS ? hparams_n_kv_heads(hp, i_row) : 0;
}

/* Returns the place, before the conversion, of element @i of value heads of @head elements. */
static uint32_t untiled(const struct hparams_delta *d, uint32_t i, uint32_t head)
{
    const uint32_t h = i / head, k = h % d->n_k_heads, v = h / d->n_k_heads;

    return (k * (d->n_v_heads / d->n_k_heads) + v) * head + i % head;
}

bool source_value_heads(const struct hparams_delta *d, enum slot slot, struct value_heads *ret)
{
    const uint32_t n_qk = 2 * d->n_k_heads * d->k_dim;

    switch (slot) {
    case SLOT_DELTA_QKV:
    case SLOT_DELTA_CONV:
        *ret = (struct value_heads){n_qk, d->v_dim, false};
        return true;
    case SLOT_DELTA_GATE:
        *ret = (struct value_heads){0, d->v_dim, false};
        return true;
    case SLOT_DELTA_A:
    case SLOT_DELTA_B:
    case SLOT_DELTA_LOG_A:
    case SLOT_DELTA_DT:
        *ret = (struct value_heads){0, 1, false};
        return true;
    case SLOT_DELTA_OUT:
        *ret = (struct value_heads){0, d->v_dim, true};
        return true;
    default:
        return false;
    }
}

static uint32_t *order_new(struct source *s, uint32_t n, struct inf_err *reterr)
{
    uint32_t *order = arena_alloc(&s->arena, MAX(n, 1u) * sizeof(*order));

    if (!order)
        err_set(reterr, ENOMEM, "out of memory");
    return order;
}

int source_order_swaps(uint32_t *order, uint32_t n, struct inf_err *reterr)
{
    _cleanup_free_ uint32_t *at = NEW(uint32_t, n), *has = NEW(uint32_t, n);

    if (!at || !has)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t k = 0; k < n; k++)
        at[k] = has[k] = k;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t from = at[order[k]], moved = has[k];

        has[from] = moved;
        at[moved] = from;
        order[k] = from;
    }
    return 0;
}

int source_order(struct source *s, enum slot slot, uint32_t i_row, const struct weight *w,
                 struct source_order *ret, struct inf_err *reterr)
{
    const struct hparams_delta *d = &s->model->hp->delta;
    const uint32_t n_heads = pair_heads(s, slot, i_row), n = w->rows > 1 ? w->rows : w->cols;
    struct value_heads values = {0, 0, false};
    uint32_t *order, n_order;

    *ret = (struct source_order){.minus_exp = slot == SLOT_DELTA_LOG_A};
    if (n_heads == 0 && (!s->tiled || !source_value_heads(d, slot, &values)))
        return 0;
    n_order = values.columns ? w->cols : n;
    order = order_new(s, n_order, reterr);
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_order; i++)
        order[i] = n_heads > 0         ? paired(i, n / n_heads)
                   : i >= values.first ? values.first + untiled(d, i - values.first, values.head)
                                       : i;
    if (values.columns)
        ret->columns = order;
    else
        ret->rows = order;
    return values.columns ? source_order_swaps(order, n_order, reterr) : 0;
}

int source_order_delta(struct source *s, bool gate, uint32_t *ret_n, struct source_order *ret,
                       struct inf_err *reterr)
{
    const struct hparams_delta *d = &s->model->hp->delta;
    const uint32_t values = d->n_v_heads / d->n_k_heads * d->v_dim;
    const uint32_t parts[] = {d->k_dim, d->k_dim, values, values};
    const uint32_t stride = 2 * (d->k_dim + values);
    uint32_t first = 0, n = 0, *order;

    *ret = (struct source_order){0};
    *ret_n = d->n_k_heads * (gate ? values : stride - values);
    order = order_new(s, *ret_n, reterr);
    if (!order)
        return -ENOMEM;
    for (unsigned p = 0; p < ARRAY_SIZE(parts); p++) {
        for (uint32_t h = 0; (p == 3) == gate && h < d->n_k_heads; h++)
            for (uint32_t i = 0; i < parts[p]; i++)
                order[n++] = h * stride + first + i;
        first += parts[p];
    }
    ret->rows = order;
    return 0;
}

int source_order_pad(struct source *s, uint32_t n, uint32_t n_padded, struct source_order *ret,
                     struct inf_err *reterr)
{
    uint32_t *order = order_new(s, n_padded, reterr);

    *ret = (struct source_order){.rows = order};
    for (uint32_t i = 0; order && i < n_padded; i++)
        order[i] = i < n ? i : SOURCE_ZEROS;
    return order ? 0 : -ENOMEM;
}
