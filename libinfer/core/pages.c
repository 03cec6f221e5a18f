/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for the size of memory pages, and gives the kernel hints about pages (madvise).
 */
#include "core/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/macros.h"

size_t pages_size(void)
{
    const long size = sysconf(_SC_PAGESIZE);

    assert(size > 0);
    return (size_t)size;
}

uint64_t pages_memory(void)
{
    const long n = sysconf(_SC_PHYS_PAGES);

    return n > 0 ? (uint64_t)n * pages_size() : 0;
}

void pages_hint_huge(void *p, size_t size)
{
    madvise(p, size, MADV_HUGEPAGE);
}

void pages_drop(void *p, size_t size)
{
    const uintptr_t page = pages_size();
    const uintptr_t begin = ALIGN_UP((uintptr_t)p, page), end = ((uintptr_t)p + size) / page * page;

    if (begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void pages_touch(void *p, size_t size)
{
    const size_t page = pages_size();

    for (size_t i = 0; i < size; i += page) {
        volatile unsigned char *at = (unsigned char *)p + i;

        *at = *at;
    }
}
