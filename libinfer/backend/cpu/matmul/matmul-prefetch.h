/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels of matrix products prefetch with these functions. */

#include "backend/cpu/matmul/matmul-kernels.h"

/* Prefetches a line that is read soon. With @once it is read only once and bypasses the
 * second-level cache. On Intel CPUs it then does not enter the third level either, which is filled
 * by lines that leave the second, so the next step would not find it there. The compiler keeps the
 * instruction in its place. */
INLINE void prefetch_line(const uint8_t *p, const bool once)
{
#if defined(__x86_64__)
    if (once)
        __asm__ volatile("prefetchnta %0" : : "m"(*p));
    else
        __asm__ volatile("prefetcht0 %0" : : "m"(*p));
#else
    once ? __builtin_prefetch(p, 0, 0) : __builtin_prefetch(p, 0, 3);
#endif
}

/*
 * Step @i of several, each of which prefetches the next @n_bytes of memory that is read later. 8 to
 * 32 rows at once are more streams than hardware prefetchers follow. These prefetches are in order
 * of addresses, which memory serves best and which hardware prefetchers join. They are spread
 * between loads and arithmetic: a burst of prefetches would occupy all line fill buffers and stall
 * everything else.
 */
INLINE void prefetch_step(const uint8_t *ahead, const unsigned i, const unsigned n_bytes,
                          const bool once)
{
    const unsigned first = (i * n_bytes + 63) / 64, last = ((i + 1) * n_bytes + 63) / 64;

    UNROLL for (unsigned line = 0; line < 5; line++) if (first + line < last)
        prefetch_line(ahead + 64 * (first + line), once);
}
