/* SPDX-License-Identifier: Apache-2.0 */
/* Prints texts in columns of a table (see cli.h). */
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "cli/cli.h"
#include "core/utf8.h"

/* Returns how many bytes of @text fit into @max columns. *ret_width gets their columns. */
static size_t columns_prefix(const char *text, int max, int *ret_width)
{
    const size_t len = strlen(text);
    int width = 0;
    size_t at = 0;

    while (at < len) {
        uint32_t c = 0;
        const size_t n = utf8_decode(text + at, len - at, &c);
        /* A terminal shows one character in the place of a byte that is not UTF-8. */
        const int more = n ? utf8proc_charwidth((utf8proc_int32_t)c) : 1;

        if (width + more > max)
            break;
        width += more;
        at += n ? n : 1;
    }
    *ret_width = width;
    return at;
}

int cli_columns(const char *text)
{
    int width;

    columns_prefix(text, INT32_MAX / 2, &width);
    return width;
}

void cli_print_column(const char *text, int width)
{
    int used;
    const size_t n = columns_prefix(text, width, &used);

    printf("%.*s%*s  ", (int)n, text, width - used, "");
}
