/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the functions with which the kernels of matrix products prefetch. */

#include "backend/cpu/matmul/matmul-kernels.h"

/* Prefetches a cache line that is read soon into the second-level cache. The first level is too
 * small: it does not hold a group of rows that is being read and the next group. Requests for the
 * first level also have few line fill buffers. On a Zen 4, products with one row read weights only
 * half as fast if lines are prefetched into the first level. The assembly keeps the compiler from
 * moving the prefetch. */
INLINE void prefetch_line(const uint8_t *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetcht1 %0" : : "m"(*p));
#else
    __builtin_prefetch(p, 0, 2);
#endif
}

/*
 * Does prefetch step @i: prefetches the @n_bytes bytes from @ahead + @i × @n_bytes on, which are
 * read later. Kernels read 8 to 32 rows at the same time, which are more streams than hardware
 * prefetchers follow. The prefetches of successive steps are in order of addresses. Memory serves
 * this order best, and hardware prefetchers follow it. The steps are spread between loads and
 * arithmetic, because a burst of prefetches would occupy all line fill buffers and stall everything
 * else.
 */
INLINE void prefetch_step(const uint8_t *ahead, const unsigned i, const unsigned n_bytes)
{
    const unsigned first = (i * n_bytes + 63) / 64, last = ((i + 1) * n_bytes + 63) / 64;

    UNROLL for (unsigned line = 0; line < 5; line++) if (first + line < last)
        prefetch_line(ahead + 64 * (first + line));
}

/* Returns how many bytes to prefetch while @n_bytes bytes are decoded to a panel. The other half of
 * @n_bytes bytes is prefetched while the panel is multiplied. If all prefetches were close
 * together, a core would wait for memory, and memory would then idle until the next panel. */
#define PANEL_AHEAD(n_bytes) ((n_bytes) / 2)

#define PART_MIN (4u << 10) /* minimum number of bytes of a part */

/*
 * Returns the place to prefetch for group @i_group of a window of @n_groups groups of rows, which
 * have @n_bytes bytes each. Together, the groups prefetch as many bytes from @at on as they have
 * themselves. This memory is divided into parts, because memory answers requests for several ranges
 * of addresses faster than requests for one range. Parts of less than a page gain nothing.
 */
INLINE struct matmul_ahead prefetch_begin(const uint8_t *at, size_t n_bytes, unsigned n_groups,
                                          unsigned i_group)
{
    const size_t all = n_groups * n_bytes;
    const unsigned n_parts = all < PART_MIN * 2 ? 1 : all < PART_MIN * 4 ? 2 : 4;

    return (struct matmul_ahead){
        .at = at + i_group * n_bytes / n_parts, .part = all / n_parts, .n_parts = n_parts};
}

/* Moves @ahead to the next part after @n_bytes bytes of a part were prefetched. */
INLINE void prefetch_move(struct matmul_ahead *ahead, const unsigned n_bytes)
{
    ahead->at += ahead->part;
    if (++ahead->turn < ahead->n_parts)
        return;
    ahead->turn = 0;
    ahead->at += n_bytes - ahead->n_parts * ahead->part;
}

/* Does prefetch step @i of an even number of steps, as prefetch_step() does, but divides the steps
 * among the parts of @ahead: two steps for a part, then two for the next part. */
INLINE void prefetch_turn(struct matmul_ahead *ahead, const unsigned i, const unsigned n_bytes)
{
    prefetch_step(ahead->at, i % 2, n_bytes);
    if (i % 2 == 1)
        prefetch_move(ahead, 2 * n_bytes);
}

/* Describes prefetches that are distributed evenly over n_steps steps. */
struct tile_ahead {
    const uint8_t *p;
    uint32_t lines, n_steps, due;
};

/* Returns the prefetches for the time in which the @m_n rows from row @m0 on are multiplied. */
INLINE struct tile_ahead tile_ahead(const struct matmul_tile *t, uint32_t m0, const unsigned m_n,
                                    uint32_t n_steps)
{
    const uint32_t begin = t->ahead_lines * m0 / t->M, end = t->ahead_lines * (m0 + m_n) / t->M;

    return (struct tile_ahead){t->ahead + (size_t)64 * begin, end - begin, n_steps, 0};
}

/* Returns how many rows of the next tile are prefetched while the @m_n rows from row @m0 on are
 * multiplied. */
INLINE uint32_t tile_next(const struct matmul_tile *t, uint32_t m0, const unsigned m_n)
{
    return MIN(t->M - m0 - m_n, m_n);
}

/* Prefetches the @n floats at @y, a row of the next tile, into the second-level cache. Rows of y
 * are too far apart for hardware prefetchers, so that each tile would begin and end with waiting.
 * Often their distance is a multiple of 4 KiB. Then all rows share a set of the first-level cache,
 * which does not hold two tiles. */
INLINE void tile_prefetch_y(const float *y, const unsigned n)
{
    UNROLL for (unsigned i = 0; i < n; i += 16) prefetch_line((const uint8_t *)(y + i));
}

INLINE void tile_prefetch(struct tile_ahead *a)
{
    for (a->due += a->lines; a->due >= a->n_steps; a->due -= a->n_steps, a->p += 64)
        __builtin_prefetch(a->p, 0, 2);
}
