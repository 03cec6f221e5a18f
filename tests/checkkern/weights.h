/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes weights of every format for checks and benchmarks. They are encoded numbers, random bytes,
 * or extreme bytes. */

#include "harness.h"
#include "quant/planes.h"

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
/* How the planes of a weight are stored (quant/planes.h). */
struct plane_choice {
    enum plane_type type;
    uint32_t group;
};

/* Chooses a type and a size of groups that a format permits, for rows of @K columns. If K is not a
 * multiple of the smallest group, the size is 0. */
struct plane_choice weights_choose_planes(struct check *c, enum inf_dtype dtype, uint32_t K);
/* Fills @n elements of a plane. */
void weights_fill_plane(struct check *c, enum weight_fill fill, enum plane_type type, void *dst,
                        uint64_t n);
/* Does what weights_magnitudes() does for a row of @n weights in a format with planes. */
void weights_planes_magnitudes(enum inf_dtype dtype, const struct plane_row *row, float *dst,
                               uint32_t n);
/* Decodes a block. For each weight it writes the sum of the magnitudes of the terms, |scale × q| +
 * |offset|, instead of the weight. */
void weights_magnitudes(enum inf_dtype dtype, const void *block, float *dst);
