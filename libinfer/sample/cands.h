/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the stages that leave candidates out of a list, and the draw from the list. The mass of
 * a candidate is its unnormalized probability. Its key, usually its logit, is the number by which
 * candidates are ordered (select.h). */

#include <math.h>

#include "sample/row.h"
#include "sample/select.h"

/* Computes the masses exp((key - max) × scale) of the candidates. */
void cands_weigh(const struct row_kernels *kernels, struct cand *c, uint32_t n, float max,
                 float scale);
/* Returns the sum of the masses. */
double cands_total(const struct cand *c, uint32_t n);

/* Orders tokens by the distance of their surprise (-log of the probability) from the entropy. Moves
 * the nearest tokens to the front: as many as are needed for the share @typical_p of the total
 * mass, but at least @least. Returns their number. The masses must be those of cands_weigh() with
 * the same @max and @scale. Afterwards the keys are those of cands_key_typical() with *ret_mean. */
uint32_t cands_cut_typical(struct cand *c, uint32_t n, float max, float scale, float typical_p,
                           uint32_t least, float *ret_mean);
/* Returns the key by which the most typical token comes first. @mean is the mean of
 * (logit - @max) × @scale. */
static inline float cands_key_typical(float logit, float max, float scale, float mean)
{
    return -fabsf((logit - max) * scale - mean);
}

/* Returns the index of the first candidate whose mass, added to the masses before it, reaches
 * @point. */
uint32_t cands_find(const struct cand *c, uint32_t n, double point);
