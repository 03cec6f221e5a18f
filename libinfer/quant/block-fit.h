/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds scales for the encoders (block-encode.c, block-encode-k.c, block-encode-values.c).
 *
 * The error of an element x[i] is w[i] × (x[i] - decoded x[i])². All elements are finite. Sums are
 * in double precision and in order, so the results are the same on every CPU.
 */

#include <math.h>
#include <stdint.h>

/* Returns the nearest integer within [lo, hi]; NaN gives lo. */
static inline int fit_round(float x, int lo, int hi)
{
    if (!(x > (float)lo))
        return lo;
    if (x >= (float)hi)
        return hi;
    return (int)lrintf(x);
}

/* Copies @n elements; those that are not finite become 0. */
void fit_load(const float *src, float *ret_x, unsigned n);

/* Computes how much the error of each element counts: |x| plus the root mean square of the @n. */
void fit_weights(const float *x, unsigned n, float *ret_w);

/* Returns binary16 of @x; numbers that are too large become the largest finite number. */
uint16_t fit_f16(float x);

/* Returns the scale d for which d × q, with q in [lo, hi] and |lo| ≥ hi, is closest to x; 0 if all
 * elements are 0. */
float fit_scale(const float *x, const float *w, unsigned n, int lo, int hi);

/* Finds the scale and the minimum for which d × q - m, with q in [0, hi], is closest to x; d, m ≥
 * 0. */
void fit_affine(const float *x, const float *w, unsigned n, int hi, float *ret_d, float *ret_m);
