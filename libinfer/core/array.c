/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes heap arrays grow, for the macros of array.h.
 */
#include "core/array.h"

#include <errno.h>
#include <string.h>

#define CAP_MIN ((size_t)16)

int array_grow(void **array, size_t *cap, size_t n, size_t cap_max, size_t size, bool zeroed)
{
    const size_t most = MIN(cap_max, PTRDIFF_MAX / size);
    size_t more = *cap > most / 2 ? most : MAX(2 * *cap, CAP_MIN);
    char *p;

    if (n > most)
        return -ENOMEM;
    more = MIN(MAX(more, n), most);
    /* The pages of a large new array come from the kernel as zeros, and calloc() does not write
     * them. */
    p = zeroed && !*array ? calloc(more, size) : realloc(*array, more * size);
    if (!p)
        return -ENOMEM;
    if (zeroed && *array)
        memset(p + *cap * size, 0, (more - *cap) * size);
    *array = p;
    *cap = more;
    return 0;
}
