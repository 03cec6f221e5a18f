/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads and weighs batches of groups. A file fit-*.c first defines the type lanes, which has LANES
 * floats, and operations on it; lane l belongs to group l of a batch. Then it includes
 * fit-search.h.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/macros.h"
#include "quant/fit.h"

#define FIT_MAX 32u

/* A batch of groups, whose numbers were divided by the largest magnitude of their group. */
struct fit_batch {
    lanes x[FIT_MAX], w[FIT_MAX];
    lanes size; /* the largest magnitudes */
    unsigned n;
};

/* Rounds to the nearest integer, and halves to the even one; |x| < 2^22. */
static inline lanes lanes_round(lanes x)
{
    const lanes big = lanes_set(0x1.8p23f);

    return lanes_sub(lanes_add(x, big), big);
}

static inline lanes lanes_abs(lanes x)
{
    return lanes_max(x, lanes_sub(lanes_set(0), x));
}

static inline lanes lanes_within(lanes x, float lo, float hi)
{
    return lanes_max(lanes_min(x, lanes_set(hi)), lanes_set(lo));
}

static inline lanes lanes_root(lanes x)
{
    return lanes_sqrt(x);
}

/* Returns the value of a table that is nearest to each number: the lowest value and the steps from
 * there up to it. All of these are whole numbers, so the sums are exact. */
static inline lanes lanes_nearest_by_steps(const struct fit_table *t, lanes x)
{
    lanes value = lanes_set(t->value[0]);

    for (unsigned i = 0; i < ARRAY_SIZE(t->middle); i++)
        value =
            lanes_add(value, lanes_less(lanes_set(t->middle[i]), x,
                                        lanes_set(t->value[i + 1] - t->value[i]), lanes_set(0)));
    return value;
}

static inline float fit_finite(float x)
{
    return isfinite(x) ? x : 0.0f;
}

/* Puts number i of group l of @from [n_groups, n] into lane l of @to[i]. Numbers that are not
 * finite, and groups beyond the last, become zeros. */
static void fit_turn(const float *from, unsigned n, uint64_t n_groups, lanes *to)
{
    float turned[FIT_MAX][LANES];

    for (unsigned l = 0; l < LANES; l++)
        for (unsigned i = 0; i < n; i++)
            turned[i][l] = l < n_groups ? fit_finite(from[l * n + i]) : 0;
    for (unsigned i = 0; i < n; i++)
        to[i] = lanes_load(turned[i]);
}

/* Divides the numbers by the largest magnitude; a group whose numbers are all too small becomes
 * zeros. */
static void fit_normalize(struct fit_batch *b)
{
    lanes size = lanes_set(0), inverse;

    for (unsigned i = 0; i < b->n; i++)
        size = lanes_max(size, lanes_abs(b->x[i]));
    inverse = lanes_less(lanes_set(FLT_MIN * 4), size, lanes_div(lanes_set(1), size), lanes_set(0));
    for (unsigned i = 0; i < b->n; i++)
        b->x[i] = lanes_mul(b->x[i], inverse);
    b->size = size;
}

static void fit_weigh(struct fit_batch *b, const float *importance, enum fit_weights weights,
                      uint64_t n_groups)
{
    lanes mean = lanes_set(0);

    for (unsigned i = 0; i < b->n; i++)
        mean = lanes_add(mean, lanes_mul(b->x[i], b->x[i]));
    mean = lanes_div(mean, lanes_set((float)b->n));
    if (importance) {
        fit_turn(importance, b->n, n_groups, b->w);
        for (unsigned i = 0; i < b->n; i++)
            b->w[i] = lanes_mul(b->w[i], lanes_root(lanes_add(mean, lanes_mul(b->x[i], b->x[i]))));
        return;
    }
    mean = lanes_root(mean);
    for (unsigned i = 0; i < b->n; i++)
        b->w[i] = weights == FIT_EQUAL ? lanes_set(1) : lanes_add(mean, lanes_abs(b->x[i]));
}

static void fit_load(struct fit_batch *b, const float *x, const float *importance,
                     enum fit_weights weights, unsigned n, uint64_t n_groups)
{
    b->n = n;
    fit_turn(x, n, n_groups, b->x);
    fit_normalize(b);
    fit_weigh(b, importance, weights, n_groups);
}
