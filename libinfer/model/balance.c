/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balances the norms of queries and keys.
 *
 * If keys are stored in few bits, a rotated head (quant/codec.h) has errors of equal size in all
 * elements. The errors are proportional to the size of the keys, and an error counts in proportion
 * to the size of the query's element. In trained models, the elements in which keys are large are
 * often not those in which queries are large. Both sizes follow from the weights of the norms of
 * heads.
 *
 * Here the weights of a key's norm are multiplied by factors, and those of the query's norm are
 * divided by them. The expected square of the error of q · k is proportional to the product of the
 * sum of (k × factor)² and the sum of (q / factor)², which is least if factor² = q / k. The factors
 * are rounded to powers of two, so that all products q × k keep their bits. The two elements of a
 * pair that the rotary embedding rotates share a factor, so that the rotation does not change.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/arch.h"

/* Factors are powers of two from 2^-BALANCE_MOST to 2^BALANCE_MOST. */
#define BALANCE_MOST 4
/* The limit of the elements of a balanced key. Elements up to this limit are finite in F16 even
 * after the rotary embedding. */
#define BALANCE_KEY_MOST 16384.0f

/* Returns the element that the rotary embedding rotates together with element @d; @d if there is
 * none. */
static uint32_t balance_partner(const struct rope_params *rope, uint32_t d)
{
    const uint32_t half = rope->n_dims / 2;

    if (d >= rope->n_dims)
        return d;
    if (rope->style == ROPE_PAIRS)
        return d ^ 1;
    return d < half ? d + half : d - half;
}

static double balance_square(const float *x, uint32_t d, uint32_t other)
{
    return (double)x[d] * (double)x[d] + (double)x[other] * (double)x[other];
}

bool balance_exponents(const float *q, const float *k, const struct rope_params *rope,
                       uint32_t head_dim, int8_t *ret_exponents)
{
    /* The norm makes the mean square of a head 1, so no element is larger than this. */
    const float most = sqrtf((float)head_dim);

    for (uint32_t d = 0; d < head_dim; d++) {
        const uint32_t other = balance_partner(rope, d);
        const double ratio = balance_square(q, d, other) / balance_square(k, d, other);
        const double power = ratio > 0 && isfinite(ratio) ? rint(log2(ratio) / 4) : 0;

        ret_exponents[d] = (int8_t)fmin(fmax(power, -BALANCE_MOST), BALANCE_MOST);
        if (!(fabsf(ldexpf(k[d], ret_exponents[d])) * most <= BALANCE_KEY_MOST))
            return false;
    }
    return true;
}

/* Returns the elements of the norm of a layer's heads, or NULL if the layer has none. */
static const float *balance_norm(const struct model *m, uint32_t i_layer, enum slot slot)
{
    const struct weight *w = layer_w(m, i_layer, slot);

    return w->data && w->dtype == INF_DTYPE_F32 && w->rows == 1 &&
                   w->cols == hparams_head_dim(m->hp, i_layer)
               ? w->data
               : NULL;
}

/* Multiplies the elements of a norm by 2^(@sign × exponents[d]). */
static int balance_apply(struct model *m, uint32_t i_layer, enum slot slot, const int8_t *exponents,
                         int sign, struct inf_err *reterr)
{
    const float *from = balance_norm(m, i_layer, slot);
    struct weight w = *layer_w(m, i_layer, slot);
    float *to = arena_alloc(&m->arena, w.cols * sizeof(*to));

    if (!to)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t d = 0; d < w.cols; d++)
        to[d] = ldexpf(from[d], sign * exponents[d]);
    w.data = to;
    layer_set(m, i_layer, slot, &w);
    return 0;
}

/* Returns whether layer @i_layer reads the keys of layer @i_owner, which may be itself. */
static bool balance_reads(const struct model *m, uint32_t i_layer, uint32_t i_owner)
{
    const struct hparams_layer *l = &m->hp->layers[i_layer];

    return l->kind != LAYER_RECURRENT &&
           (l->shared > 0 ? l->shared - 1u == i_owner : i_layer == i_owner);
}

/* Remembers by which factors the queries of layer @i_owner are multiplied, for models that read its
 * keys (arch-gemma4-assistant.c). */
static int balance_note(struct model *m, uint32_t i_owner, const int8_t *exponents,
                        struct inf_err *reterr)
{
    const uint32_t n = hparams_head_dim(m->hp, i_owner);
    float *factors = arena_alloc(&m->arena, n * sizeof(*factors));

    if (!m->query_factors)
        m->query_factors = arena_zalloc(&m->arena, m->hp->n_layers * sizeof(*m->query_factors));
    if (!factors || !m->query_factors)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t d = 0; d < n; d++)
        factors[d] = ldexpf(1, -exponents[d]);
    m->query_factors[i_owner] = (struct weight){
        .data = factors, .dtype = INF_DTYPE_F32, .rows = 1, .cols = n, .name = "(balance)"};
    return 0;
}

/* Balances the keys of a layer with the queries of all layers that read them. */
static int balance_layer(struct model *m, uint32_t i_owner, int8_t *exponents,
                         struct inf_err *reterr)
{
    const float *q = balance_norm(m, i_owner, SLOT_Q_NORM);
    const float *k = balance_norm(m, i_owner, SLOT_K_NORM);
    const struct rope_params rope = rope_of_layer(m, i_owner);
    int r;

    if (!q || !k)
        return 0;
    for (uint32_t i = i_owner; i < m->hp->n_layers; i++)
        if (balance_reads(m, i, i_owner) &&
            (!balance_norm(m, i, SLOT_Q_NORM) ||
             hparams_head_dim(m->hp, i) != hparams_head_dim(m->hp, i_owner)))
            return 0;
    if (!balance_exponents(q, k, &rope, hparams_head_dim(m->hp, i_owner), exponents))
        return 0;
    r = balance_note(m, i_owner, exponents, reterr);
    if (r == 0)
        r = balance_apply(m, i_owner, SLOT_K_NORM, exponents, 1, reterr);
    for (uint32_t i = i_owner; r == 0 && i < m->hp->n_layers; i++)
        if (balance_reads(m, i, i_owner))
            r = balance_apply(m, i, SLOT_Q_NORM, exponents, -1, reterr);
    return r;
}

int balance_norms(struct model *m, struct inf_err *reterr)
{
    int8_t *exponents;
    uint32_t most = 0;
    int r = 0;

    if (!m->arch->build)
        return 0;
    for (uint32_t i = 0; i < m->hp->n_layers; i++)
        most = MAX(most, hparams_head_dim(m->hp, i));
    exponents = arena_alloc(&m->arena, most);
    if (!exponents)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t i = 0; r == 0 && i < m->hp->n_layers; i++)
        if (m->hp->layers[i].shared == 0 && m->hp->layers[i].kind != LAYER_RECURRENT)
            r = balance_layer(m, i, exponents, reterr);
    return r;
}
