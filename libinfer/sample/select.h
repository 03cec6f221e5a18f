/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The largest of many, without sorting them all
 *
 * Everywhere larger keys come first and equal keys are ordered by lower id, so that results do
 * not depend on how they were found. Keys are never NaN.
 */

#include <stdbool.h>
#include <stdint.h>

struct cand {
    float key;  /* what order goes by */
    float mass; /* unnormalised probability */
    int32_t id;
};

static inline bool cand_before(const struct cand *a, const struct cand *b)
{
    return a->key != b->key ? a->key > b->key : a->id < b->id;
}

/* Puts the @k first of @n cands into the first places, in no order. */
void cand_select(struct cand *c, uint32_t n, uint32_t k);
void cand_sort(struct cand *c, uint32_t n);
/* Puts the shortest prefix whose mass reaches @mass into the first places, in no order, and returns
 * its length, at least 1 and at most @n. */
uint32_t cand_prefix(struct cand *c, uint32_t n, double mass);
