/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arrays on the heap that grow
 *
 * An array is a pointer and a capacity: the number of elements that it has room for. An array
 * without room is NULL with the capacity 0. The caller frees it with free().
 */

#include "core/macros.h"

/*
 * Gives @array, an lvalue of type T *, room for @n elements in all; @cap, an lvalue of any unsigned
 * integer type, is its capacity. The array grows to twice its capacity or to @n, whichever is more.
 * Returns 0, or -ENOMEM, also if the size in bytes or the capacity would overflow. On failure,
 * array and capacity are unchanged.
 */
#define ARRAY_GROW(array, cap, n) ARRAY_GROW_BY_(array, cap, n, false)
/* Like ARRAY_GROW(), but also sets elements beyond the old capacity to zero. */
#define ARRAY_GROW_ZEROED(array, cap, n) ARRAY_GROW_BY_(array, cap, n, true)

#define ARRAY_GROW_BY_(array, cap, n, zeroed)                                                      \
    ({                                                                                             \
        void *array_ = (array);                                                                    \
        size_t cap_ = (cap);                                                                       \
        const size_t n_ = (n);                                                                     \
        int r_ = 0;                                                                                \
                                                                                                   \
        if (n_ > cap_) {                                                                           \
            r_ = array_grow(&array_, &cap_, n_, (__typeof__(cap))-1, sizeof(*(array)), zeroed);    \
            (array) = array_;                                                                      \
            (cap) = (__typeof__(cap))cap_;                                                         \
        }                                                                                          \
        r_;                                                                                        \
    })

/* Makes an array grow. The macros call this function if @n is more than *@cap. The capacity never
 * exceeds @cap_max. */
int array_grow(void **array, size_t *cap, size_t n, size_t cap_max, size_t size, bool zeroed);
