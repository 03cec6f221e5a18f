/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A hash index: it finds numbers by the hash of a key that is stored elsewhere
 *
 * A slot is eight bytes, so an index of many thousand names fits in the cache, and filling one
 * costs little more than hashing. The caller compares keys: it walks over the numbers that were put
 * under a hash until the key of a number matches, and may put a new number where the walk ended.
 *
 *     uint32_t at = index_start(ix, hash), value;
 *     while (index_match(ix, hash, &at, &value)) {
 *         if (fits(value))
 *             return value;
 *         at++;
 *     }
 *
 * A struct of zeros is an empty index. One thread may write. Several threads may read an index that
 * no thread writes.
 */

#include "core/macros.h"

struct index {
    uint64_t *slots; /* hash << 32 | value + 1; 0: free */
    uint32_t n, cap;
};

/* Makes room for @n values in all. Positions of walks become invalid. -ENOMEM, also for more than
 * 2^30 values. */
int index_reserve(struct index *ix, size_t n);
void index_done(struct index *ix);

static inline uint32_t index_start(const struct index *ix, uint32_t hash)
{
    return hash & (ix->cap - 1);
}

/* Finds the next value under @hash, from slot *at on. Returns false if there is none; *at is then a
 * free slot. */
static inline bool index_match(const struct index *ix, uint32_t hash, uint32_t *at,
                               uint32_t *ret_value)
{
    if (ix->cap == 0)
        return false;
    for (;; ++*at) {
        uint64_t slot;

        *at &= ix->cap - 1;
        slot = ix->slots[*at];
        if (slot == 0)
            return false;
        if (slot >> 32 == hash) {
            *ret_value = (uint32_t)slot - 1;
            return true;
        }
    }
}

/* Puts @value, which must be below UINT32_MAX, into the slot @at, where a walk of @hash ended or
 * found a value to replace. There must be room for the value. */
static inline void index_put(struct index *ix, uint32_t at, uint32_t hash, uint32_t value)
{
    assert(at < ix->cap);
    ix->n += ix->slots[at] == 0;
    assert(ix->n < ix->cap);
    ix->slots[at] = (uint64_t)hash << 32 | (value + 1);
}
