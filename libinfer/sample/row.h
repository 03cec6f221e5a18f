/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes over a whole row of logits
 *
 * A row is processed in runs of ROW_RUN values; the last run may be shorter. A pass gives one
 * number per run, and later steps only look into runs that can matter. The kernels of all
 * instruction sets give the same bits.
 */

#include <stdbool.h>
#include <stdint.h>

#define ROW_RUN 128

struct row_kernels {
    /* Computes the largest value of each run. Returns false if a value is NaN; then the peaks are
     * undefined. */
    bool (*peaks)(const float *x, uint32_t n, float *peaks);
    /*
     * Computes mass[i] = exp((x[i] - max) × scale), and the sum of the masses of each run. @max is
     * the largest value and finite; other values may be -infinity. The relative error is below
     * 2e-7, except for the rounding of the exponent; results below 4e-38 are 0. @mass has room for
     * whole runs, and its elements from index @n on become 0. @mass may be NULL if only the sums
     * are needed, and may be @x.
     */
    void (*masses)(const float *x, uint32_t n, float max, float scale, float *mass, float *sums);
    /* Computes for each run the sum of those masses that are above @key, or are equal to @key and
     * have an index below @id. @all holds the sum of all masses of each run. Masses are computed
     * again, but only in runs that can have such masses. */
    void (*before)(const float *x, uint32_t n, float max, float scale, float key, uint32_t id,
                   const float *all, float *sums);
    /* Copies the values whose bits are set in @mask, bit i % 32 of mask[i / 32]; the others become
     * -infinity. */
    void (*mask)(const float *x, uint32_t n, const uint32_t *mask, float *out);
};

/* Returns the fastest kernels for a CPU with @flags (core/cpu.h). */
const struct row_kernels *row_kernels_get(unsigned flags);

static inline uint32_t row_n_runs(uint32_t n)
{
    return (n + ROW_RUN - 1) / ROW_RUN;
}

/* Adds up the numbers of the runs, in their order. */
double row_total(const float *sums, uint32_t n_runs);

/* Returns the index of the largest value, the lowest one if several are equal; -1 if the largest
 * value is infinite. @peaks are the peaks of the row. */
int32_t row_argmax(const float *x, uint32_t n, const float *peaks);

struct cand;

/*
 * Writes the @k largest values of a row to @out, in no particular order; values of -infinity are
 * left out. The row must not contain NaN. Returns the number of values written. @out has room for
 * max(@n, number of runs).
 */
uint32_t row_top(const float *x, uint32_t n, const float *peaks, uint32_t k, struct cand *out);
