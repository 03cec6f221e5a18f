/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stages that leave out some of a list of candidates, and the draw from a list */

#include "core/rng.h"
#include "sample/row.h"
#include "sample/select.h"

/* Computes the masses exp((key - max) × scale) of the candidates. */
void cands_weigh(const struct row_kernels *kernels, struct cand *c, uint32_t n, float max,
                 float scale);
/* Returns the sum of the masses. */
double cands_total(const struct cand *c, uint32_t n);

/* These stages move the remaining candidates to the front, and return their number. */

/* Keeps the tokens whose surprise (-log of the probability) is nearest to the entropy, until they
 * have the share @typical_p of the total mass; at least @least tokens. The masses must be those of
 * cands_weigh() with the same @max and @scale. Afterwards the keys are the masses. */
uint32_t cands_cut_typical(struct cand *c, uint32_t n, float max, float scale, float typical_p,
                           uint32_t least);
/* Keeps the candidates whose mass is at least the share @min_p of the largest mass. */
uint32_t cands_cut_min_p(struct cand *c, uint32_t n, float min_p);

/* Draws a candidate with a probability proportional to its mass. Returns its index. */
uint32_t cands_draw(const struct cand *c, uint32_t n, struct rng *rng);
