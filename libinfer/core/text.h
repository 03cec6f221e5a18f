/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Beginnings and ends of NUL-terminated texts. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The rest of @text behind @start; NULL when @text does not begin with @start. */
static inline const char *text_after(const char *text, const char *start)
{
    const size_t n = strlen(start);

    return strncmp(text, start, n) == 0 ? text + n : NULL;
}

static inline bool text_starts_with(const char *text, const char *start)
{
    return text_after(text, start) != NULL;
}

static inline bool text_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Like text_ends_with(), but ASCII letters match in either case. */
static inline bool text_ends_with_nocase(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcasecmp(text + n - m, end) == 0;
}
