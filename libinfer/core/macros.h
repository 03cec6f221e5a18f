/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small macros, ownership helpers and overflow-safe sizes
 *
 * Only this file uses the cleanup attribute, and only this file and array.h use statement
 * expressions.
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define DIV_UP(a, b)   (((a) + (b)-1) / (b))
#define ALIGN_UP(a, b) (DIV_UP(a, b) * (b))
#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define MAX(a, b)      ((a) > (b) ? (a) : (b))
#define UNUSED         __attribute__((unused))
#define PRINTF(f, a)   __attribute__((format(printf, f, a)))
#define LIKELY(x)      __builtin_expect(!!(x), 1)
#define UNLIKELY(x)    __builtin_expect(!!(x), 0)

/* Gives the struct of @type in which @ptr points to @member. If @member is the first member, NULL
 * gives NULL. */
#define CONTAINER_OF(ptr, type, member)                                                            \
    ({                                                                                             \
        const __typeof__(((type *)0)->member) *member_ = (ptr);                                    \
        (type *)((uintptr_t)member_ - offsetof(type, member));                                     \
    })

/* Gives the value of a variable, and sets the variable to NULL (or -1 for descriptors). */
#define STEAL(p)                                                                                   \
    ({                                                                                             \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })
#define STEAL_FD(fd)                                                                               \
    ({                                                                                             \
        int stolen_ = (fd);                                                                        \
        (fd) = -1;                                                                                 \
        stolen_;                                                                                   \
    })

/* `_cleanup_(foo_freep) struct foo *x = NULL;` frees x when it leaves its scope. */
#define _cleanup_(f) __attribute__((cleanup(f)))
#define DEFINE_CLEANUP(type, func)                                                                 \
    static inline UNUSED void func##p(type *p)                                                     \
    {                                                                                              \
        if (*p)                                                                                    \
            *p = func(*p);                                                                         \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define _cleanup_free_  _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* Returns false on overflow; *ret is written only on success. */
static inline bool size_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t r;

    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *ret = r;
    return true;
}

static inline bool size_add(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t r;

    if (__builtin_add_overflow(a, b, &r))
        return false;
    *ret = r;
    return true;
}

/* Calls calloc() for an array: checks n × size for overflow and gives a typed pointer. */
#define NEW(type, n) ((type *)calloc((n) > 0 ? (n) : 1, sizeof(type)))
