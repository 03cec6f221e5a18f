/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prefetches of the kernels of matrix products. */

#include "backend/cpu/matmul/matmul-kernels.h"

/* A line that is read soon, or that is read soon and only once: then it bypasses the second level.
 * On Intel's CPUs it does not come into the third one either, which is filled by what leaves the
 * second: the next step would find nothing there. Stays in its place among the instructions around
 * it. */
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
 * Step @i of several that ask for the next @n_bytes each of what will be read later. 8 to 32 rows
 * at once are more streams than a CPU's own prefetcher follows; this one is in the order of
 * addresses, which memory serves best and which the CPU's own prefetcher joins. In between are
 * loads and arithmetic: a burst of prefetches finds all buffers for lines under way taken, and
 * everything waits for it.
 */
INLINE void prefetch_step(const uint8_t *ahead, const unsigned i, const unsigned n_bytes,
                          const bool once)
{
    const unsigned first = (i * n_bytes + 63) / 64, last = ((i + 1) * n_bytes + 63) / 64;

    UNROLL for (unsigned line = 0; line < 5; line++) if (first + line < last)
        prefetch_line(ahead + 64 * (first + line), once);
}
