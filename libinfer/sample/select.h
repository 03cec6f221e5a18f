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

/* Index of the largest value, the lowest one among equals; -1 when a value is NaN or +infinity or
 * all are -infinity. */
int32_t row_argmax(const float *x, uint32_t n);
/* The @k largest values of a row without NaN into @out, best first; returns how many, which is
 * less than @k only when @n is. mass is left 0. */
uint32_t row_top(const float *x, uint32_t n, uint32_t k, struct cand *out);

/* Puts the @k first of @n cands into the first places, in no order. */
void cand_select(struct cand *c, uint32_t n, uint32_t k);
void cand_sort(struct cand *c, uint32_t n);
/* Sorts as much as is needed and returns the length of the shortest prefix whose mass reaches
 * @mass, at least 1 and at most @n; that prefix is sorted. */
uint32_t cand_prefix(struct cand *c, uint32_t n, double mass);
