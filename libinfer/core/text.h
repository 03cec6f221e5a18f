/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compares beginnings and ends of NUL-terminated texts, and writes lists of names. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Returns the rest of @text after @start; NULL if @text does not begin with @start. */
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

/* Appends @name to a list of the form "a, b". @list is a buffer of @size bytes (at least 6), and is
 * "" at first. If there is no room for the name with a mark "…" after it, the list ends with
 * "…". */
static inline void text_list_add(char *list, size_t size, const char *name)
{
    static const char rest[] = ", …";
    const size_t n = strlen(list), n_gap = n > 0 ? 2 : 0, n_name = strlen(name);

    if (text_ends_with(list, "…"))
        return;
    if (n + n_gap + n_name + sizeof(rest) > size) {
        memcpy(list + n, rest + 2 - n_gap, sizeof(rest) - 2 + n_gap);
        return;
    }
    memcpy(list + n, rest, n_gap);
    memcpy(list + n + n_gap, name, n_name + 1);
}
