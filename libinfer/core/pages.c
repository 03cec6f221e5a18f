/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the kernel hints about memory pages (madvise).
 */
#include "core/pages.h"

#include <sys/mman.h>

#include "core/macros.h"

void pages_hint_huge(void *p, size_t size)
{
    madvise(p, size, MADV_HUGEPAGE);
}

void pages_drop(void *p, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ALIGN_UP((uintptr_t)p, page), end = ((uintptr_t)p + size) / page * page;

    if (begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}
