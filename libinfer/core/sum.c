/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes XXH3-64 checksums, at once or piece by piece.
 */
#include "core/sum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sum_bytes(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

struct sum *sum_new(void)
{
    return (struct sum *)XXH3_createState();
}

struct sum *sum_free(struct sum *s)
{
    XXH3_freeState((XXH3_state_t *)s);
    return NULL;
}

void sum_begin(struct sum *s)
{
    XXH3_64bits_reset((XXH3_state_t *)s);
}

void sum_add(struct sum *s, const void *data, size_t len)
{
    XXH3_64bits_update((XXH3_state_t *)s, data, len);
}

uint64_t sum_end(const struct sum *s)
{
    return XXH3_64bits_digest((const XXH3_state_t *)s);
}
