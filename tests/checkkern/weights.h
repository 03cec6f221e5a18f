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
/* Fills @n binary16 numbers of a plane (quant/affine.h). */
void weights_fill_plane(struct check *c, enum weight_fill fill, void *dst, uint64_t n);
/* Does what weights_magnitudes() does for @n weights in an affine format, with groups of up to 256.
 * The arguments are those of affine_decode(). */
void weights_affine_magnitudes(unsigned bits, const void *codes, const void *scales,
                               const void *offsets, uint32_t group, float *dst, uint32_t n);
/* Decodes a block. For each weight it writes the sum of the magnitudes of the terms, |scale × q| +
 * |offset|, instead of the weight. */
void weights_magnitudes(enum inf_dtype dtype, const void *block, float *dst);
