/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes weights of every format for checks and benchmarks. They are encoded numbers, random bytes,
 * or extreme bytes. */

#include "harness.h"

enum weight_fill {
    WEIGHT_ENCODED, /* normally distributed numbers, encoded */
    WEIGHT_RANDOM,  /* random bits, scales of ordinary size */
    WEIGHT_ZERO,
    WEIGHT_ONES, /* all bits set, scales of ordinary size */
    WEIGHT_LOW,  /* most negative numbers */
    WEIGHT_FILL_N,
};

/* Fills @n_elems weights, a whole number of blocks. */
void weights_fill(struct check *c, enum inf_dtype dtype, enum weight_fill fill, void *dst,
                  uint64_t n_elems);
/* Decodes a block. For each weight it writes the sum of the magnitudes of the terms, |scale × q| +
 * |offset|, instead of the weight. */
void weights_magnitudes(enum inf_dtype dtype, const void *block, float *dst);
