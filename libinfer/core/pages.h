/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the size of memory pages, and gives the kernel hints about pages. */

#include <stddef.h>
#include <stdint.h>

/* The size of a huge page where pages have 4 KiB, and a multiple of every size of pages. */
#define PAGES_HUGE ((size_t)2 << 20)

/* Returns the bytes of a memory page, a power of two. Linux has pages of 4 KiB on x86-64, and of 4,
 * 16 or 64 KiB on arm64. */
size_t pages_size(void);
/* Returns the bytes of the memory of this machine; 0: unknown. */
uint64_t pages_memory(void);

/* Tells the kernel that these pages are used densely and should be huge pages. */
void pages_hint_huge(void *p, size_t size);
/* Gives back to the system the whole pages of private memory between @p and @p + @size. They read
 * as zero and use no memory until they are written again. */
void pages_drop(void *p, size_t size);
/* Makes the system back the pages of @p … @p + @size - 1 with memory now, so that later writes do
 * not wait for it. Their content stays. Nobody else may write to them meanwhile. */
void pages_touch(void *p, size_t size);
