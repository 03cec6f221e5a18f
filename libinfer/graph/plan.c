/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places all values of a graph in one scratch buffer.
 *
 * Values are placed in order of size, the largest first. Each value goes into the lowest sufficient
 * gap between the placed values that are needed at the same time as this value. This is algorithm 3
 * of Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference".
 * Invariant: two values that the same step of the plan needs never share a byte.
 */
#include "graph/plan.h"

#include <errno.h>

#define PLAN_ALIGN 64u

static int by_size(const void *a, const void *b)
{
    const struct plan_span *x = *(struct plan_span *const *)a, *y = *(struct plan_span *const *)b;

    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return (x > y) - (x < y); /* Values of equal size keep their order, because plans must not
                                 depend on the C library's qsort(). */
}

static int by_offset(const void *a, const void *b)
{
    const struct plan_span *x = *(struct plan_span *const *)a, *y = *(struct plan_span *const *)b;

    if (x->offset != y->offset)
        return x->offset > y->offset ? 1 : -1;
    return (x > y) - (x < y);
}

/* Returns the lowest offset at which @s overlaps none of the spans @placed that are needed at the
 * same time. These spans are in order of offset. */
static uint64_t find_gap(const struct plan_span *s, struct plan_span *const *placed, size_t n)
{
    uint64_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const struct plan_span *p = placed[i];

        if (p->last < s->first || p->first > s->last)
            continue;
        if (p->offset >= at && p->offset - at >= s->size)
            break;
        at = MAX(at, ALIGN_UP(p->offset + p->size, PLAN_ALIGN));
    }
    return at;
}

int plan_place(struct plan_span *spans, size_t n, uint64_t *ret_size)
{
    _cleanup_free_ struct plan_span **order = NEW(struct plan_span *, n);
    _cleanup_free_ struct plan_span **placed = NEW(struct plan_span *, n);
    uint64_t sum = 0, size = 0;

    if (!order || !placed)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        assert(spans[i].first <= spans[i].last);
        /* In the worst case all spans lie one after another. If the sum of their sizes does not
         * overflow, no offset that is computed below overflows. */
        if (!size_add(sum, spans[i].size, &sum) || !size_add(sum, PLAN_ALIGN, &sum))
            return -EOVERFLOW;
        order[i] = &spans[i];
    }
    qsort(order, n, sizeof(struct plan_span *), by_size);
    for (size_t i = 0; i < n; i++) {
        order[i]->offset = find_gap(order[i], placed, i);
        size = MAX(size, order[i]->offset + order[i]->size);
        placed[i] = order[i];
        qsort(placed, i + 1, sizeof(struct plan_span *), by_offset);
    }
    *ret_size = ALIGN_UP(size, PLAN_ALIGN);
    return 0;
}
