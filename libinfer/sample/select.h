/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selection of the largest elements without sorting all of them
 *
 * Larger keys always come first, and equal keys are ordered by lower id, so results do not depend
 * on the method. Keys are never NaN.
 */

#include <stdbool.h>
#include <stdint.h>

struct cand {
    float key;  /* determines the order */
    float mass; /* unnormalized probability */
    int32_t id;
};

static inline bool cand_before(const struct cand *a, const struct cand *b)
{
    return a->key != b->key ? a->key > b->key : a->id < b->id;
}

/* Moves the @k largest of @n candidates to the front, in no particular order. */
void cand_select(struct cand *c, uint32_t n, uint32_t k);
void cand_sort(struct cand *c, uint32_t n);
/* Moves the shortest prefix (of the candidates in order) whose mass reaches @mass to the front. The
 * prefix is in no particular order, but its last element comes last. Returns its length, which is 1
 * … @n. */
uint32_t cand_prefix(struct cand *c, uint32_t n, double mass);
