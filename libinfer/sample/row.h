/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What sampling does with every value of a row of logits
 *
 * A row is looked at in runs of ROW_RUN values, the last one shorter. A pass leaves a number per
 * run, and what follows looks only into the runs that can matter. The kernels of all instruction
 * sets give the same bits.
 */

#include <stdbool.h>
#include <stdint.h>

#define ROW_RUN 128

struct row_kernels {
    /* The largest value of each run; false when a value is NaN, and the peaks are then void. */
    bool (*peaks)(const float *x, uint32_t n, float *peaks);
    /*
     * mass[i] = exp((x[i] - max) × scale), and the sum of each run. @max is the largest value,
     * finite; others may be -infinity. Relative error below 2e-7, but for the rounding of the
     * exponent; results below 1e-37 are 0. @mass has whole runs: what lies behind @n becomes 0.
     * It may be NULL when only the sums are wanted, and may be @x.
     */
    void (*masses)(const float *x, uint32_t n, float max, float scale, float *mass, float *sums);
    /* For each run the sum of the masses above @key, and of those equal to it before index @id;
     * @all are the sums of all. Masses are computed anew, and only where a run has such. */
    void (*before)(const float *x, uint32_t n, float max, float scale, float key, uint32_t id,
                   const float *all, float *sums);
};

/* The best for a CPU with @flags (core/cpu.h). */
const struct row_kernels *row_kernels_get(unsigned flags);

static inline uint32_t row_n_runs(uint32_t n)
{
    return (n + ROW_RUN - 1) / ROW_RUN;
}

/* Sum of numbers per run, in their order. */
double row_total(const float *sums, uint32_t n_runs);

/* Index of the largest value, the lowest one among equals; -1 when it is infinite. @peaks are the
 * row's. */
int32_t row_argmax(const float *x, uint32_t n, const float *peaks);

struct cand;

/*
 * The @k largest of a row without NaN into @out, in no order; values of -infinity are left out.
 * Returns how many. @out has room for max(@n, number of runs).
 */
uint32_t row_top(const float *x, uint32_t n, const float *peaks, uint32_t k, struct cand *out);
