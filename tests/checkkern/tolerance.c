/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes tolerances, the largest allowed differences between a kernel and the reference.
 *
 * Float sums: each operation rounds by at most u = 2^-24 of its result, and no partial sum is
 * larger than the sum of magnitudes. So the error of n operations is at most n × u × Σ|terms| to
 * first order (Higham, Accuracy and Stability of Numerical Algorithms, §3.1). The signs of errors
 * are practically random, so the mean square of the errors grows only with n. The allowed root mean
 * square is 4 times the expected one. Sums of integers have no tolerance.
 *
 * Sums of F16 (matmul-avx512fp16.c): the even products and the odd products of the 32 products of a
 * block form two chains of 16, whose sums are added. This makes 17 roundings, each by at most u =
 * 2^-11 of the magnitude of the block. Blocks are scaled so that no sum is below the normal range.
 *
 * NF4 (matmul-coded-float.h): the table of values is rounded to multiples of 1 / 8191 of its
 * largest magnitude, which changes each by at most half of this unit. The same error of all
 * products whose codes are equal does not cancel out, so the bound is that of the sum of
 * magnitudes.
 *
 * F16 in blocks of int16 (matmul-int16-avx512.c): a weight is rounded by at most half of 2^-11 of
 * the power of two of the largest weight of its block. Prepared rows are not rounded again.
 *
 * F32 in two bfloat16 (matmul-tiles-amx.c): each factor is hi + lo + rest, with |lo| ≤ u |w|,
 * |rest| ≤ u^2 |w| and u = 2^-8. The kernel omits the product of the two lo and all products with
 * a rest.
 */

#include <math.h>

#include "harness.h"

#define UNIT           0x1p-24
#define HALF_UNIT      0x1p-11
#define HALF_ROUNDINGS 17
#define BF16_UNIT      0x1p-8
#define APART_UNIT     0x1p-12

double tolerance_sum(uint64_t n_terms, unsigned n_roundings, double magnitude)
{
    /* Results and products below the normal range round by half of the smallest denormal. */
    return (double)(n_terms + n_roundings) * UNIT * magnitude + (double)n_terms * 0x1p-149;
}

double tolerance_table(double magnitude)
{
    return 0.5 / 8191 * magnitude;
}

double tolerance_rms(uint64_t n_terms, unsigned n_roundings)
{
    return 4 * UNIT * sqrt((double)(n_terms + n_roundings));
}

double tolerance_half_sum(double magnitude)
{
    return HALF_ROUNDINGS * HALF_UNIT * magnitude;
}

double tolerance_half_rms(void)
{
    return 4 * HALF_UNIT * sqrt(HALF_ROUNDINGS);
}

double tolerance_apart_sum(double magnitude)
{
    return APART_UNIT * magnitude;
}

/* Errors have random signs and are evenly distributed at most, so their root mean square is below
 * APART_UNIT / sqrt(3). */
double tolerance_apart_rms(void)
{
    return APART_UNIT;
}

double tolerance_two_sum(double magnitude)
{
    return 3.03 * BF16_UNIT * BF16_UNIT * magnitude; /* lo is rounded */
}

/* There are three errors of up to u^2. The mean square of each error is less than a tenth of the
 * square of its limit. */
double tolerance_two_rms(void)
{
    return BF16_UNIT * BF16_UNIT;
}
