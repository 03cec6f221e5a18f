/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a hash index grow.
 */
#include "core/index.h"

#include <errno.h>
#include <string.h>

#include "core/pages.h"

/* Allocates zeroed slots (index.h), in huge pages if there are many. An index is filled in random
 * order, which would cost a fault and a TLB miss for each small page. */
static uint64_t *slots_new(uint32_t cap)
{
    const size_t size = cap * sizeof(uint64_t);
    uint64_t *slots;

    if (size < PAGES_HUGE)
        return NEW(uint64_t, cap);
    slots = aligned_alloc(PAGES_HUGE, size);
    if (!slots)
        return NULL;
    pages_hint_huge(slots, size);
    return memset(slots, 0, size);
}

int index_reserve(struct index *ix, size_t n)
{
    const struct index old = *ix;
    uint32_t cap = old.cap ? old.cap : 16, at, value;

    if (n > (size_t)1 << 30)
        return -ENOMEM;
    while (cap < n + n / 2 + 1)
        cap *= 2;
    if (cap == old.cap)
        return 0;
    ix->slots = slots_new(cap);
    if (!ix->slots) {
        *ix = old;
        return -ENOMEM;
    }
    ix->cap = cap;
    ix->n = 0;
    for (uint32_t i = 0; i < old.cap; i++) {
        const uint32_t hash = (uint32_t)(old.slots[i] >> 32);

        if (old.slots[i] == 0)
            continue;
        at = index_start(ix, hash);
        while (index_match(ix, hash, &at, &value))
            at++;
        index_put(ix, at, hash, (uint32_t)old.slots[i] - 1);
    }
    free(old.slots);
    return 0;
}

void index_done(struct index *ix)
{
    free(ix->slots);
    *ix = (struct index){0};
}
