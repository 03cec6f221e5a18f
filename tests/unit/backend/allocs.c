/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/allocs.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic unsigned n_allocs;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_mmap(void *p, size_t size, int prot, int flags, int fd, long offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, long offset);

unsigned allocs_count(void)
{
    return n_allocs;
}

void *__wrap_malloc(size_t size)
{
    n_allocs++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocs++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    n_allocs++;
    return __real_realloc(p, size);
}

void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, long offset)
{
    n_allocs++;
    return __real_mmap(p, size, prot, flags, fd, offset);
}
