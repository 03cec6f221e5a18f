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

/* Says how much of the memory that is read next was prefetched. The lines of four ranges are
 * prefetched in turn, as by turn_prefetch(). */
struct attn_ahead {
    const char *p; /* NULL: nothing is prefetched */
    size_t at;     /* the next line */
    size_t range;  /* bytes of a range */
    size_t rest;   /* bytes that were read since the last line */
};

/* Makes the state for @size bytes at @p. */
ALWAYS_INLINE struct attn_ahead ahead_of(const void *p, size_t size)
{
    return (struct attn_ahead){.p = p, .range = size / ATTN_RANGES};
}

ALWAYS_INLINE void ahead_line(struct attn_ahead *a)
{
    __builtin_prefetch(a->p + a->at, 0, 2);
    a->at += a->range;
    a->at -= a->at >= ATTN_RANGES * a->range ? ATTN_RANGES * a->range - 64 : 0;
}

/* Prefetches as many bytes as are read now, @n. */
ALWAYS_INLINE void ahead_read(struct attn_ahead *a, const size_t n)
{
    if (!a->p)
        return;
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 64; i++)
        ahead_line(a);
    if (n % 64 == 0)
        return;
    a->rest += n % 64;
    if (a->rest >= 64) {
        a->rest -= 64;
        ahead_line(a);
    }
}

/* Distributes the prefetches of some memory evenly over the steps of a call. */
struct attn_spread {
    struct attn_ahead ahead;
    uint32_t n_lines, n_steps, due;
};

/* Returns the prefetches of @n_bytes bytes at @p for a call of @n_steps steps. @n_bytes is a
 * multiple of 64 × ATTN_RANGES. If @p is NULL, nothing is prefetched. */
static inline struct attn_spread spread_of(const void *p, size_t n_bytes, uint32_t n_steps)
{
    return (struct attn_spread){.ahead = ahead_of(p, n_bytes),
                                .n_lines = p && n_steps > 0 ? (uint32_t)(n_bytes / 64) : 0,
                                .n_steps = n_steps > 0 ? n_steps : 1};
}

/* Does the prefetches that belong to the next @n steps. */
ALWAYS_INLINE void spread_step(struct attn_spread *s, const uint32_t n)
{
    for (s->due += n * s->n_lines; s->due >= s->n_steps; s->due -= s->n_steps)
        ahead_line(&s->ahead);
}
