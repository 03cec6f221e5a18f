/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the kernels of recurrent layers with the vector operations of a simd-<isa>.h, which must
 * be included before this file.
 *
 * The delta rule needs S · k before it can change S. The change of one row and the two sums of the
 * next row, S · k and S · q, are computed in one pass over S, which therefore is read and written
 * once for each row. If S is the state before the row, the result of the row is
 *
 *     decay × (S · q) + beta × (v - decay × (S · k)) × (q · k)
 *
 * A lane of a vector is a row of S. It has two sums, for even and for odd columns of S, whose order
 * of additions is fixed.
 * There is no include guard: each file of an instruction set includes this file once and names the
 * table.
 */

#include "backend/cpu/recur/recur.h"

#include <math.h>
#include <stdbool.h>

/* Vectors that a pass over S processes together, so that the additions of one vector do not wait
 * for each other. */
#define DELTA_WIDE (VF_N == 4 ? 4u : 2u)

static void conv(float *y, const float *const *x, const float *taps, size_t ld, const float *bias,
                 uint32_t n_taps, uint32_t n)
{
    for (uint32_t c = 0; c < n; c += VF_N) {
        const uint32_t k = n - c < VF_N ? n - c : VF_N;
        vf sum = bias ? vf_load_n(bias + c, k) : vf_set1(0);

        for (uint32_t j = 0; j < n_taps; j++)
            sum = vf_fma(vf_load_n(taps + j * ld + c, k), vf_load_n(x[j] + c, k), sum);
        vf_store_n(y + c, sum, k);
    }
}

static float dot(const float *a, const float *b, uint32_t n)
{
    vf sum = vf_set1(0);

    for (uint32_t i = 0; i < n; i += VF_N) {
        const uint32_t k = n - i < VF_N ? n - i : VF_N;

        sum = vf_fma(vf_load_n(a + i, k), vf_load_n(b + i, k), sum);
    }
    return vf_sum(sum);
}

static void unit(float *y, const float *x, float eps, float factor, uint32_t n)
{
    const vf f = vf_set1(factor / sqrtf(dot(x, x, n) + eps));

    for (uint32_t i = 0; i < n; i += VF_N) {
        const uint32_t k = n - i < VF_N ? n - i : VF_N;

        vf_store_n(y + i, vf_mul(vf_load_n(x + i, k), f), k);
    }
}

/* Describes some lanes, from lane @i on: @wide vectors of @k lanes each. If k is less than VF_N,
 * wide is 1. */
struct lanes {
    const struct delta_args *a;
    uint32_t i, wide, k;
};

/* Holds the sums of a row over the columns of S, for even and odd columns. */
struct delta_sums {
    vf key[2][4], query[2][4];
};

#define INLINE static inline __attribute__((always_inline))

INLINE vf lanes_load(const struct lanes *l, const float *p, uint32_t i)
{
    return l->k == VF_N ? vf_load(p + i * VF_N) : vf_load_n(p, l->k);
}

INLINE void lanes_store(const struct lanes *l, float *p, uint32_t i, vf v)
{
    if (l->k == VF_N)
        vf_store(p + i * VF_N, v);
    else
        vf_store_n(p, v, l->k);
}

/* Pointers to the keys and the query of a pass over S. These copies stay in registers, while the
 * pointers in struct delta_args would be read again after each store to S. */
struct delta_keys {
    const float *old, *key, *query;
};

/* Processes column @j of S, which is at @s. If @changed is set, changes the column by the row of
 * keys->old. If @summed is set, adds the column's products with the key and the query of the next
 * row to @key and @query. */
INLINE void delta_column(const struct lanes *l, float *s, uint32_t j, const struct delta_keys *keys,
                         bool changed, vf decay, const vf *change, bool summed, vf *key, vf *query)
{
    for (uint32_t i = 0; i < l->wide; i++) {
        vf v = lanes_load(l, s, i);

        if (changed) {
            v = vf_fma(change[i], vf_set1(keys->old[j]), vf_mul(v, decay));
            lanes_store(l, s, i, v);
        }
        if (summed) {
            key[i] = vf_fma(v, vf_set1(keys->key[j]), key[i]);
            query[i] = vf_fma(v, vf_set1(keys->query[j]), query[i]);
        }
    }
}

/* Passes over all columns of S: changes S by row @t, and adds up the sums of row @next. */
INLINE void delta_pass(const struct lanes *l, bool changed, uint32_t t, const vf *change,
                       bool summed, uint32_t next, struct delta_sums *sums)
{
    const struct delta_args *a = l->a;
    const struct delta_keys keys = {a->k + t * a->ld_qk, a->k + next * a->ld_qk,
                                    a->q + next * a->ld_qk};
    const vf decay = changed ? vf_set1(a->gates[t * DELTA_GATES]) : vf_set1(0);
    const uint32_t k_dim = a->k_dim, n = a->n;
    float *s = a->state + l->i;
    struct delta_sums r;
    uint32_t j = 0;

    for (uint32_t i = 0; summed && i < l->wide; i++)
        r.key[0][i] = r.key[1][i] = r.query[0][i] = r.query[1][i] = vf_set1(0);
    for (; j + 2 <= k_dim; j += 2, s += 2 * (size_t)n) {
        delta_column(l, s, j, &keys, changed, decay, change, summed, r.key[0], r.query[0]);
        delta_column(l, s + n, j + 1, &keys, changed, decay, change, summed, r.key[1], r.query[1]);
    }
    if (j < k_dim)
        delta_column(l, s, j, &keys, changed, decay, change, summed, r.key[0], r.query[0]);
    if (summed)
        *sums = r;
}

/* Writes the results of row @t, and sets @change to beta × (v - decay × (S · k)). The row adds the
 * outer product of @change and k to S. */
INLINE void delta_result(const struct lanes *l, uint32_t t, const struct delta_sums *sums,
                         vf *change)
{
    const struct delta_args *a = l->a;
    const float *gates = a->gates + t * DELTA_GATES;
    const vf decay = vf_set1(gates[0]), beta = vf_set1(gates[1]), qk = vf_set1(gates[2]);

    for (uint32_t i = 0; i < l->wide; i++) {
        const vf kept = vf_mul(vf_add(sums->key[0][i], sums->key[1][i]), decay);
        const vf query = vf_mul(vf_add(sums->query[0][i], sums->query[1][i]), decay);

        change[i] = vf_mul(beta, vf_sub(lanes_load(l, a->v + t * a->ld_v + l->i, i), kept));
        lanes_store(l, a->y + t * a->ld_y + l->i, i, vf_fma(change[i], qk, query));
    }
}

INLINE void delta_lanes(const struct lanes *l)
{
    const uint32_t n_rows = l->a->n_rows;
    struct delta_sums sums;
    vf change[4] = {vf_set1(0)}; /* the first pass does not read it */

    delta_pass(l, false, 0, change, true, 0, &sums);
    for (uint32_t t = 0; t + 1 < n_rows; t++) {
        delta_result(l, t, &sums, change);
        delta_pass(l, true, t, change, true, t + 1, &sums);
    }
    delta_result(l, n_rows - 1, &sums, change);
    delta_pass(l, true, n_rows - 1, change, false, 0, &sums);
}

static void delta_wide(const struct delta_args *a, uint32_t i)
{
    const struct lanes l = {a, i, DELTA_WIDE, VF_N};

    delta_lanes(&l);
}

static void delta_narrow(const struct delta_args *a, uint32_t i, uint32_t k)
{
    const struct lanes l = {a, i, 1, k};

    delta_lanes(&l);
}

static void delta(const struct delta_args *args)
{
    uint32_t i = 0;

    for (; i + DELTA_WIDE * VF_N <= args->n; i += DELTA_WIDE * VF_N)
        delta_wide(args, i);
    for (; i < args->n; i += VF_N)
        delta_narrow(args, i, args->n - i < VF_N ? args->n - i : VF_N);
}

#define RECUR_FNS(rung, flags)                                                                     \
    {                                                                                              \
        .name = rung, .cpu_flags = flags, .conv = conv, .unit = unit, .dot = dot, .delta = delta,  \
    }
