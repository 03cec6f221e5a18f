/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the scales and offsets of blocks, for many groups of numbers at the same time.
 *
 * A group is 16 or 32 numbers that share a scale, or a scale and an offset. The error of a number
 * counts in proportion to its weight. Without importance the weight is the magnitude of the number
 * plus the root mean square of the group, because large numbers matter more in products. With
 * importance, the weight of a number x is importance × √(x² + mean of x²). Numbers that are not
 * finite count as zero.
 *
 * All versions compute the same operations in the same order for each group, without fused
 * multiply-adds, so they give the same bits.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fit_weights {
    FIT_BY_SIZE, /* as described above */
    FIT_EQUAL,   /* all numbers count the same, unless there is importance */
};

/* The values that codes of 4 bits stand for, in order, and the middles between a value and the
 * next. */
struct fit_table {
    float value[16], middle[15];
};

struct fit_ops {
    const char *name;
    unsigned flags; /* enum cpu_flags that the CPU must have */
    /* Finds the scale d of each group, for which d × q is closest to the numbers; q are integers
     * from @lo to @hi, and |@lo| ≥ @hi. @x, and @importance unless it is NULL, are [n_groups, n];
     * n is 16 or 32. */
    void (*scales)(const float *x, const float *importance, unsigned n, uint64_t n_groups, int lo,
                   int hi, float *ret_d);
    /* Finds the scale d ≥ 0 and the offset m ≥ 0 of each group, for which d × q - m is closest to
     * the numbers; q are integers from 0 to @hi. */
    void (*offsets)(const float *x, const float *importance, enum fit_weights weights, unsigned n,
                    uint64_t n_groups, int hi, float *ret_d, float *ret_m);
    /* Finds the scale d of each group, for which d × value is closest to the numbers, in proportion
     * to their weights @w. @x and @w are [n_groups, 32] and finite. */
    void (*values)(const float *x, const float *w, const struct fit_table *table, uint64_t n_groups,
                   float *ret_d);
    /* Improves integers that stand for scales and offsets: for group g, d = step_d[g] × sc[g] and
     * m = step_m[g] × mn[g]. Tries integers that differ by 1, and keeps those with the least error.
     * Integers are from 0 to 63. The other parameters are as in offsets(). */
    void (*refine)(const float *x, const float *importance, enum fit_weights weights, unsigned n,
                   uint64_t n_groups, int hi, const float *step_d, const float *step_m, float *sc,
                   float *mn);
    /* Returns the largest magnitude of @n numbers (a multiple of 16). */
    float (*largest)(const float *x, unsigned n);
    /* Rounds @n numbers (a multiple of 16): @ret_q gets q - @lo, where q is the integer from @lo to
     * @hi that is closest to (x + m) / d, or 0 if d is 0. */
    void (*round)(const float *x, unsigned n, float d, float m, int lo, int hi, uint8_t *ret_q);
};

/* fit-*.c */
extern const struct fit_ops fit_ref, fit_avx2, fit_avx512;

/* Returns the version for this CPU. */
const struct fit_ops *fit_best(void);
/* Returns version @i that this CPU can run; NULL: there are no more. Tests use this function. */
const struct fit_ops *fit_at(size_t i);
