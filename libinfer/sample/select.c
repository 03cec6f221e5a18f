/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the first elements by quickselect (Hoare): a given number of them, or as many as have a
 * given mass. Only results that must be in order are sorted.
 */
#include "sample/select.h"

#include <assert.h>

/* Restores a heap after element @i was replaced. The root of the heap is its last element in the
 * order. */
static void heap_sift(struct cand *h, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t worst = i;
        const uint32_t l = 2 * i + 1, r = l + 1;

        if (l < n && cand_before(&h[worst], &h[l]))
            worst = l;
        if (r < n && cand_before(&h[worst], &h[r]))
            worst = r;
        if (worst == i)
            return;
        const struct cand t = h[i];

        h[i] = h[worst];
        h[worst] = t;
        i = worst;
    }
}

/* Partitions [lo, hi), which has at least two elements, around the middle one (Hoare). All elements
 * before the returned index come before all elements from it on, and neither side is empty. No two
 * elements are equal, because ids differ. */
static uint32_t partition_cands(struct cand *c, uint32_t lo, uint32_t hi)
{
    const struct cand pivot = c[lo + (hi - lo) / 2];
    uint32_t i = lo, j = hi - 1;

    for (;;) {
        while (cand_before(&c[i], &pivot))
            i++;
        while (cand_before(&pivot, &c[j]))
            j--;
        if (i >= j)
            return i;
        const struct cand t = c[i];

        c[i++] = c[j];
        c[j--] = t;
    }
}

void cand_select(struct cand *c, uint32_t n, uint32_t k)
{
    uint32_t lo = 0, hi = n; /* the border is in [lo, hi) */

    assert(k <= n);
    while (hi - lo > 1 && k > lo && k < hi) {
        const uint32_t i = partition_cands(c, lo, hi);

        if (k <= i)
            hi = i;
        else
            lo = i;
    }
}

/* Sorts by heapsort, because qsort() may allocate memory. */
void cand_sort(struct cand *c, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        heap_sift(c, n, i);
    while (n > 1) {
        const struct cand worst = c[0];

        c[0] = c[--n];
        c[n] = worst;
        heap_sift(c, n, 0);
    }
}

uint32_t cand_prefix(struct cand *c, uint32_t n, double mass)
{
    uint32_t lo = 0, hi = n; /* the last element of the prefix is in [lo, hi) */
    double before = 0;       /* mass of the elements before lo */

    assert(n > 0);
    while (hi - lo > 1) {
        const uint32_t border = partition_cands(c, lo, hi);
        double part = 0;

        for (uint32_t i = lo; i < border; i++)
            part += (double)c[i].mass;
        if (before + part >= mass) {
            hi = border;
        } else {
            before += part;
            lo = border;
        }
    }
    return lo + 1;
}
