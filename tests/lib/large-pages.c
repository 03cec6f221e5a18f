/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates a kernel with larger memory pages.
 *
 * A test that loads this library with LD_PRELOAD sees pages of SCONCE_TEST_PAGE bytes, a multiple
 * of the real size: sysconf() returns this size, and mappings begin and end at multiples of it. A
 * call whose address or offset such a kernel would refuse ends the process with a message. An error
 * would not suffice, because programs ignore the errors of calls that only give hints. Calls within
 * the C library are not seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/macros.h"

/* Defines a function with the name @name for the linker. Headers may rename functions for programs,
 * such as mmap() to mmap64(). */
#define INSTEAD_OF(name) __asm__(#name) __attribute__((visibility("default")))

long large_sysconf(int name) INSTEAD_OF(sysconf);
int large_getpagesize(void) INSTEAD_OF(getpagesize);
void *large_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) INSTEAD_OF(mmap);
void *large_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t o) INSTEAD_OF(mmap64);
int large_munmap(void *at, size_t n) INSTEAD_OF(munmap);
int large_mprotect(void *at, size_t n, int prot) INSTEAD_OF(mprotect);
int large_madvise(void *at, size_t n, int advice) INSTEAD_OF(madvise);
int large_msync(void *at, size_t n, int flags) INSTEAD_OF(msync);
int large_mincore(void *at, size_t n, unsigned char *ret_pages) INSTEAD_OF(mincore);

static size_t real_page(void)
{
    return getauxval(AT_PAGESZ);
}

static size_t page_bytes(void)
{
    static size_t page;
    const char *text = getenv("SCONCE_TEST_PAGE");

    if (page == 0)
        page = text ? strtoul(text, NULL, 10) : real_page();
    if (page < real_page() || page % real_page() != 0) {
        fprintf(stderr, "large-pages: SCONCE_TEST_PAGE must be a multiple of %zu\n", real_page());
        abort();
    }
    return page;
}

/* Ends the process if @value is not a multiple of the page's size. Only calls write(), because the
 * caller may be a signal handler. */
static void check(const char *call, uint64_t value)
{
    static const char text[] = ": an address or offset that is not a multiple of the page's size\n";

    if (value % page_bytes() == 0)
        return;
    (void)!write(2, call, strlen(call));
    (void)!write(2, text, strlen(text));
    abort();
}

long large_sysconf(int name)
{
    long (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    if (name == _SC_PAGESIZE)
        return (long)page_bytes();
    if (name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES)
        return real(name) / (long)(page_bytes() / real_page());
    return real(name);
}

int large_getpagesize(void)
{
    return (int)page_bytes();
}

static void *map(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

/* Returns an unused range of @n bytes that begins at a page; MAP_FAILED if there is none. */
static void *reserve(size_t n)
{
    const size_t page = page_bytes();
    unsigned char *p =
        map(NULL, n + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const size_t before = p == MAP_FAILED ? 0 : -(uintptr_t)p % page;

    if (p == MAP_FAILED)
        return p;
    if (before > 0)
        syscall(SYS_munmap, p, before);
    syscall(SYS_munmap, p + before + n, page - before);
    return p + before;
}

/* Maps at @at, up to the end of a page. In the last page, the bytes after the end of the file are
 * zeros. */
static void *map_whole(unsigned char *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    const size_t whole = ALIGN_UP(n, page_bytes()), some = ALIGN_UP(n, real_page());

    if (flags & MAP_ANONYMOUS)
        return map(at, whole, prot, flags, fd, offset);
    if (map(at, n, prot, flags, fd, offset) == MAP_FAILED)
        return MAP_FAILED;
    if (whole > some)
        map(at + some, whole - some, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at;
}

void *large_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    const size_t whole = ALIGN_UP(n, page_bytes());
    void *p, *ret;

    check("mmap", (uint64_t)offset);
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
        check("mmap", (uintptr_t)at);
        return map_whole(at, n, prot, flags, fd, offset);
    }
    p = n > 0 ? reserve(whole) : NULL;
    if (p == MAP_FAILED)
        return p;
    ret = map_whole(p, n, prot, flags | MAP_FIXED, fd, offset);
    if (ret == MAP_FAILED && p) {
        const int error = errno;

        syscall(SYS_munmap, p, whole);
        errno = error;
    }
    return ret;
}

void *large_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return large_mmap(at, n, prot, flags, fd, offset);
}

int large_munmap(void *at, size_t n)
{
    check("munmap", (uintptr_t)at);
    return (int)syscall(SYS_munmap, at, ALIGN_UP(n, page_bytes()));
}

int large_mprotect(void *at, size_t n, int prot)
{
    check("mprotect", (uintptr_t)at);
    return (int)syscall(SYS_mprotect, at, ALIGN_UP(n, page_bytes()), prot);
}

int large_madvise(void *at, size_t n, int advice)
{
    check("madvise", (uintptr_t)at);
    return (int)syscall(SYS_madvise, at, ALIGN_UP(n, page_bytes()), advice);
}

int large_msync(void *at, size_t n, int flags)
{
    check("msync", (uintptr_t)at);
    return (int)syscall(SYS_msync, at, ALIGN_UP(n, page_bytes()), flags);
}

/* A page is in memory if any of the real pages in it is. */
int large_mincore(void *at, size_t n, unsigned char *ret_pages)
{
    const size_t page = page_bytes(), n_real = page / real_page();
    unsigned char real;

    check("mincore", (uintptr_t)at);
    for (size_t i = 0; i < DIV_UP(n, page); i++) {
        unsigned char any = 0;

        for (size_t j = 0; j < n_real; j++) {
            const unsigned char *p = (unsigned char *)at + i * page + j * real_page();

            if (syscall(SYS_mincore, p, real_page(), &real) < 0)
                return -1;
            any |= real;
        }
        ret_pages[i] = any;
    }
    return 0;
}
