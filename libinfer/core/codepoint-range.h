/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sorted ranges of code points, and white space
 *
 * tokenizer/ and chat/ have tables of their own, which correct utf8proc for different properties
 * and versions of Unicode. The two folders share only the search.
 */

#include "core/macros.h"

struct codepoint_range {
    uint32_t first, last;
};

/* Returns whether @cp is in one of the @n ranges @t, which are in ascending order. */
static inline bool codepoint_in_ranges(const struct codepoint_range *t, size_t n, uint32_t cp)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (cp > t[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && cp >= t[lo].first;
}

#define CODEPOINT_IN(table, cp) codepoint_in_ranges(table, ARRAY_SIZE(table), cp)

/* Returns whether @cp has the property White_Space, which has not changed since Unicode 6.3. */
static inline bool codepoint_is_space(uint32_t cp)
{
    if (cp < 0x85)
        return cp == ' ' || (cp >= '\t' && cp <= '\r');
    if (cp < 0x1680)
        return cp == 0x85 || cp == 0xa0;
    return cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}
