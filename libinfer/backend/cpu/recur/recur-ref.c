/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the kernels of recurrent layers in plain C. They are the reference for the fast kernels.
 *
 * Sums are computed in double precision and rounded once at the end. The state is rounded after
 * each row.
 */
#include "backend/cpu/recur/recur.h"

#include <math.h>

static void conv(float *y, const float *const *x, const float *taps, size_t ld, const float *bias,
                 uint32_t n_taps, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        double sum = bias ? (double)bias[c] : 0;

        for (uint32_t j = 0; j < n_taps; j++)
            sum += (double)taps[j * ld + c] * (double)x[j][c];
        y[c] = (float)sum;
    }
}

static float dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

static void unit(float *y, const float *x, float eps, float factor, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * (double)factor / sqrt(sum + (double)eps));
}

/* Changes row @i of the block of S (recur.h) for row @t of the sequence, and computes element @i of
 * the result of row @t. */
static void delta_row(const struct delta_args *a, uint32_t t, uint32_t i)
{
    const float *q = a->q + t * a->ld_qk, *k = a->k + t * a->ld_qk;
    const double decay = (double)a->gates[t * DELTA_GATES];
    const double beta = (double)a->gates[t * DELTA_GATES + 1];
    double kept = 0, sum = 0, change;

    for (uint32_t j = 0; j < a->k_dim; j++)
        kept += decay * (double)a->state[(size_t)j * a->n + i] * (double)k[j];
    change = beta * ((double)a->v[t * a->ld_v + i] - kept);
    for (uint32_t j = 0; j < a->k_dim; j++) {
        float *s = &a->state[(size_t)j * a->n + i];
        const double next = decay * (double)*s + change * (double)k[j];

        sum += next * (double)q[j];
        *s = (float)next;
    }
    a->y[t * a->ld_y + i] = (float)sum;
}

static void delta(const struct delta_args *args)
{
    for (uint32_t t = 0; t < args->n_rows; t++)
        for (uint32_t i = 0; i < args->n; i++)
            delta_row(args, t, i);
}

const struct recur_fns recur_ref = {
    .name = "ref",
    .conv = conv,
    .unit = unit,
    .dot = dot,
    .delta = delta,
};
