/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rounds and weighs numbers for the encoders of the small formats (block-k-small.c, block-iq4.c and
 * others).
 *
 * The error of an element x[i] is w[i] × (x[i] - decoded x[i])². All elements are finite, and their
 * number is a multiple of 4. Sums are added up in 4 lanes and in order, so the results are the same
 * on every CPU.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A vector of four numbers. A comparison of two vectors gives -1 (true) or 0 for each number. */
typedef float fit_f4 __attribute__((vector_size(16)));
typedef int32_t fit_i4 __attribute__((vector_size(16)));

static inline fit_f4 fit_load4(const float *p)
{
    fit_f4 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline fit_f4 fit_set4(float x)
{
    return (fit_f4){x, x, x, x};
}

/* Returns @x where @mask is -1, and 0 where it is 0. */
static inline fit_f4 fit_where4(fit_i4 mask, fit_f4 x)
{
    return (fit_f4)(mask & (fit_i4)x);
}

static inline double fit_sum4(fit_f4 v)
{
    return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]);
}

#define FIT_ROUNDING 0x1.8p23f /* adding and then subtracting this rounds a float to an integer */

/* Returns the nearest integers within [lo, hi], as floats; ties go to even, and NaN gives lo. */
static inline fit_f4 fit_round4(fit_f4 x, float lo, float hi)
{
    const fit_f4 low = fit_set4(lo), high = fit_set4(hi), rounding = fit_set4(FIT_ROUNDING);
    const fit_i4 above = x > low;
    const fit_f4 a = (fit_f4)((above & (fit_i4)x) | (~above & (fit_i4)low));
    const fit_i4 below = a < high;

    return ((fit_f4)((below & (fit_i4)a) | (~below & (fit_i4)high)) + rounding) - rounding;
}

/* Does the same with one number. */
static inline int fit_round(float x, int lo, int hi)
{
    if (!(x > (float)lo))
        return lo;
    if (x >= (float)hi)
        return hi;
    return (int)((x + FIT_ROUNDING) - FIT_ROUNDING);
}

/* Copies @n elements; those that are not finite become 0. */
void fit_load(const float *src, float *ret_x, unsigned n);

/* Computes how much the error of each element counts, as fit.h describes it, except that with
 * importance the mean of x² counts twice. @importance may be NULL. */
void fit_weights(const float *x, const float *importance, unsigned n, float *ret_w);

/* Returns binary16 of @x; numbers that are too large become the largest finite number. */
uint16_t fit_f16(float x);

/* Returns the first of the elements with the largest magnitude. */
float fit_extreme(const float *x, unsigned n);
