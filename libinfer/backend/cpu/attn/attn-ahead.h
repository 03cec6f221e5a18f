/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines how attention kernels prefetch the memory that they read next. */

#include <stddef.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Ranges of memory that are prefetched in turn. */
#define ATTN_RANGES 4u

/* Does step @i of the prefetches: each step prefetches @n_bytes of the @size bytes at @ahead.
 * Memory answers requests for several ranges of addresses faster than requests for one range, so
 * successive steps prefetch from ATTN_RANGES ranges in rotation. The lines go to the second-level
 * cache, because a core has more buffers for requests there than in the first level. */
ALWAYS_INLINE void turn_prefetch(const void *ahead, size_t size, size_t i, const size_t n_bytes)
{
    const char *p =
        (const char *)ahead + i % ATTN_RANGES * (size / ATTN_RANGES) + i / ATTN_RANGES * n_bytes;

#pragma GCC unroll 8
    for (size_t line = 0; line < n_bytes; line += 64)
        __builtin_prefetch(p + line, 0, 2);
}
