/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the functions of struct fit_ops with the operations on lanes. */

#include "quant/fit-lanes.h"
#include "quant/fit-values.h"

/* Tries scales that map the number of the largest magnitude to about the end of the range. For
 * each rounding, the best scale is d = Σwxq / Σwq², and its error is Σwx² - (Σwxq)² / Σwq². With 5
 * or 6 bits, half as many steps find scales that are as good. */
static lanes fit_scale(const struct fit_batch *b, int lo, int hi)
{
    const int stride = hi > 8 ? 2 : 1;
    lanes extreme = lanes_set(0), best = lanes_set(0), best_gain = lanes_set(0);

    for (unsigned i = 0; i < b->n; i++)
        extreme = lanes_less(lanes_abs(extreme), lanes_abs(b->x[i]), b->x[i], extreme);
    for (int step = stride - 10; step <= 9; step += stride) {
        const lanes inverse =
            lanes_less(lanes_set(0), lanes_abs(extreme),
                       lanes_div(lanes_set((float)lo + 0.1f * (float)step), extreme), lanes_set(0));
        lanes xq = lanes_set(0), qq = lanes_set(0), d, gain;

        for (unsigned i = 0; i < b->n; i++) {
            const lanes q =
                lanes_within(lanes_round(lanes_mul(b->x[i], inverse)), (float)lo, (float)hi);
            const lanes wq = lanes_mul(b->w[i], q);

            xq = lanes_add(xq, lanes_mul(wq, b->x[i]));
            qq = lanes_add(qq, lanes_mul(wq, q));
        }
        d = lanes_less(lanes_set(0), qq, lanes_div(xq, qq), lanes_set(0));
        gain = lanes_mul(d, xq);
        best = lanes_less(best_gain, gain, d, best);
        best_gain = lanes_max(best_gain, gain);
    }
    return best;
}

/* The sums of a rounding. */
struct fit_sums {
    lanes q, qq, xq;
};

static inline struct fit_sums fit_sum(const struct fit_batch *b, lanes inverse, lanes lowest,
                                      int hi)
{
    struct fit_sums s = {lanes_set(0), lanes_set(0), lanes_set(0)};

    for (unsigned i = 0; i < b->n; i++) {
        const lanes from = lanes_mul(lanes_sub(b->x[i], lowest), inverse);
        const lanes q = lanes_within(lanes_round(from), 0, (float)hi);
        const lanes wq = lanes_mul(b->w[i], q);

        s.q = lanes_add(s.q, wq);
        s.qq = lanes_add(s.qq, lanes_mul(wq, q));
        s.xq = lanes_add(s.xq, lanes_mul(wq, b->x[i]));
    }
    return s;
}

/* Returns the error of the numbers d × q - m, rounded with this d and m. */
static inline lanes fit_error(const struct fit_batch *b, lanes d, lanes m, int hi)
{
    const lanes inverse = lanes_div(lanes_set(1), d);
    lanes error = lanes_set(0);

    for (unsigned i = 0; i < b->n; i++) {
        const lanes q =
            lanes_within(lanes_round(lanes_mul(lanes_add(b->x[i], m), inverse)), 0, (float)hi);
        const lanes e = lanes_sub(lanes_sub(lanes_mul(d, q), m), b->x[i]);

        error = lanes_add(error, lanes_mul(b->w[i], lanes_mul(e, e)));
    }
    return error;
}

/* Tries scales of about the range of the numbers. For each rounding, the best d and m solve two
 * linear equations; if m would be below 0, it is 0. */
static void fit_offset(const struct fit_batch *b, int hi, lanes *ret_d, lanes *ret_m)
{
    lanes lowest = lanes_set(0), highest = lanes_set(0), sw = lanes_set(0), swx = lanes_set(0);
    lanes best = lanes_set(FLT_MAX), range;

    for (unsigned i = 0; i < b->n; i++) {
        lowest = lanes_min(lowest, b->x[i]);
        highest = lanes_max(highest, b->x[i]);
        sw = lanes_add(sw, b->w[i]);
        swx = lanes_add(swx, lanes_mul(b->w[i], b->x[i]));
    }
    range = lanes_sub(highest, lowest);
    *ret_d = lanes_div(range, lanes_set((float)hi));
    *ret_m = lanes_sub(lanes_set(0), lowest);
    range = lanes_max(range, lanes_set(FLT_MIN));
    for (int step = -10; step <= 10; step++) {
        const lanes inverse = lanes_div(lanes_set((float)hi + 0.1f * (float)step), range);
        const struct fit_sums s = fit_sum(b, inverse, lowest, hi);
        const lanes det = lanes_sub(lanes_mul(sw, s.qq), lanes_mul(s.q, s.q));
        lanes d = lanes_div(lanes_sub(lanes_mul(sw, s.xq), lanes_mul(swx, s.q)), det);
        lanes m = lanes_div(lanes_sub(lanes_mul(s.q, s.xq), lanes_mul(s.qq, swx)), det);
        lanes error;

        d = lanes_less(m, lanes_set(0), lanes_div(s.xq, s.qq), d);
        m = lanes_max(m, lanes_set(0));
        error = fit_error(b, d, m, hi);
        error = lanes_less(lanes_set(0), det, error, lanes_set(FLT_MAX));
        error = lanes_less(lanes_set(0), d, error, lanes_set(FLT_MAX));
        *ret_d = lanes_less(error, best, d, *ret_d);
        *ret_m = lanes_less(error, best, m, *ret_m);
        best = lanes_min(error, best);
    }
}

static lanes fit_load_part(const float *from, uint64_t n_groups)
{
    float all[LANES] = {0};

    memcpy(all, from, MIN(n_groups, (uint64_t)LANES) * sizeof(*from));
    return lanes_load(all);
}

static void fit_store_part(lanes x, uint64_t n_groups, float *ret)
{
    float all[LANES];

    lanes_store(all, x);
    memcpy(ret, all, MIN(n_groups, (uint64_t)LANES) * sizeof(*ret));
}

static void fit_scales(const float *x, const float *importance, unsigned n, uint64_t n_groups,
                       int lo, int hi, float *ret_d)
{
    struct fit_batch b;

    for (uint64_t g = 0; g < n_groups; g += LANES) {
        fit_load(&b, x + g * n, importance ? importance + g * n : NULL, FIT_BY_SIZE, n,
                 n_groups - g);
        fit_store_part(lanes_mul(fit_scale(&b, lo, hi), b.size), n_groups - g, ret_d + g);
    }
}

static void fit_offsets(const float *x, const float *importance, enum fit_weights weights,
                        unsigned n, uint64_t n_groups, int hi, float *ret_d, float *ret_m)
{
    struct fit_batch b;
    lanes d, m;

    for (uint64_t g = 0; g < n_groups; g += LANES) {
        fit_load(&b, x + g * n, importance ? importance + g * n : NULL, weights, n, n_groups - g);
        fit_offset(&b, hi, &d, &m);
        fit_store_part(lanes_mul(d, b.size), n_groups - g, ret_d + g);
        fit_store_part(lanes_mul(m, b.size), n_groups - g, ret_m + g);
    }
}

static void fit_values(const float *x, const float *w, const struct fit_table *table,
                       uint64_t n_groups, float *ret_d)
{
    struct fit_batch b = {.n = FIT_MAX};

    for (uint64_t g = 0; g < n_groups; g += LANES) {
        fit_turn(x + g * FIT_MAX, FIT_MAX, n_groups - g, b.x);
        fit_turn(w + g * FIT_MAX, FIT_MAX, n_groups - g, b.w);
        fit_normalize(&b);
        fit_store_part(lanes_mul(fit_value_scale(&b, table), b.size), n_groups - g, ret_d + g);
    }
}

static void fit_round(const float *x, unsigned n, float d, float m, int lo, int hi, uint8_t *ret_q)
{
    if (d == 0) {
        memset(ret_q, -lo, n);
        return;
    }
    for (unsigned i = 0; i < n; i += LANES) {
        const lanes all = lanes_load(x + i);
        const lanes finite = lanes_less(lanes_abs(all), lanes_set(INFINITY), all, lanes_set(0));
        const lanes v = lanes_div(lanes_add(finite, lanes_set(m)), lanes_set(d));

        /* Clamping before rounding keeps large quotients within the range of lanes_round(). */
        lanes_store_bytes(ret_q + i, lanes_sub(lanes_round(lanes_within(v, (float)lo, (float)hi)),
                                               lanes_set((float)lo)));
    }
}

/* Returns the steps @from divided by @size, for numbers that were divided by @size; 0 if @size is
 * tiny. */
static lanes fit_step(const float *from, lanes size, uint64_t n_groups)
{
    const lanes step = fit_load_part(from, n_groups);

    return lanes_less(lanes_set(FLT_MIN * 4), size, lanes_div(step, size), lanes_set(0));
}

static void fit_refine_batch(const struct fit_batch *b, int hi, lanes step_d, lanes step_m,
                             lanes *sc, lanes *mn)
{
    const lanes sc_0 = *sc, mn_0 = *mn;
    lanes best = fit_error(b, lanes_mul(step_d, sc_0), lanes_mul(step_m, mn_0), hi);

    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++) {
            const lanes s = lanes_within(lanes_add(sc_0, lanes_set((float)i)), 0, 63);
            const lanes m = lanes_within(lanes_add(mn_0, lanes_set((float)j)), 0, 63);
            const lanes d = lanes_mul(step_d, s);
            lanes error = fit_error(b, d, lanes_mul(step_m, m), hi);

            error = lanes_less(lanes_set(0), d, error, lanes_set(FLT_MAX));
            *sc = lanes_less(error, best, s, *sc);
            *mn = lanes_less(error, best, m, *mn);
            best = lanes_min(error, best);
        }
}

static void fit_refine(const float *x, const float *importance, enum fit_weights weights,
                       unsigned n, uint64_t n_groups, int hi, const float *step_d,
                       const float *step_m, float *sc, float *mn)
{
    struct fit_batch b;
    lanes s, m;

    for (uint64_t g = 0; g < n_groups; g += LANES) {
        fit_load(&b, x + g * n, importance ? importance + g * n : NULL, weights, n, n_groups - g);
        s = fit_load_part(sc + g, n_groups - g);
        m = fit_load_part(mn + g, n_groups - g);
        fit_refine_batch(&b, hi, fit_step(step_d + g, b.size, n_groups - g),
                         fit_step(step_m + g, b.size, n_groups - g), &s, &m);
        fit_store_part(s, n_groups - g, sc + g);
        fit_store_part(m, n_groups - g, mn + g);
    }
}

static float fit_largest(const float *x, unsigned n)
{
    float all[LANES], largest = 0;
    lanes size = lanes_set(0);

    for (unsigned i = 0; i < n; i += LANES) {
        const lanes a = lanes_abs(lanes_load(x + i));

        /* Magnitudes that are not finite count as 0, because they are not below INFINITY. */
        size = lanes_max(lanes_less(a, lanes_set(INFINITY), a, lanes_set(0)), size);
    }
    lanes_store(all, size);
    for (unsigned l = 0; l < LANES; l++)
        largest = MAX(largest, all[l]);
    return largest;
}

#define FIT_OPS                                                                                    \
    .scales = fit_scales, .offsets = fit_offsets, .values = fit_values, .refine = fit_refine,      \
    .largest = fit_largest, .round = fit_round
