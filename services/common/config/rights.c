/* SPDX-License-Identifier: Apache-2.0 */
/* Names rights, and reads and writes sets of them. */
#include "common/config/rights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum right right;
    const char *name;
} rights_rows[] = {
    {RIGHT_INFER, "infer"},
    {RIGHT_MANAGE, "manage"},
    {RIGHT_OBSERVE, "observe"},
};

const char *right_name(enum right right)
{
    for (size_t i = 0; i < ARRAY_SIZE(rights_rows); i++)
        if (rights_rows[i].right == right)
            return rights_rows[i].name;
    return "?";
}

unsigned right_find(const char *word, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(rights_rows); i++)
        if (strlen(rights_rows[i].name) == len && memcmp(rights_rows[i].name, word, len) == 0)
            return rights_rows[i].right;
    return 0;
}

int rights_parse(const char *text, size_t len, unsigned *ret_rights)
{
    const char *end = text + len;
    unsigned rights = 0;

    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *word_end = comma ? comma : end;
        const unsigned right = right_find(text, (size_t)(word_end - text));

        if (!right)
            return -EINVAL;
        rights |= right;
        if (!comma)
            break;
        text = comma + 1;
    }
    *ret_rights = rights;
    return 0;
}

void rights_print(unsigned rights, char ret_text[RIGHTS_TEXT_SIZE])
{
    size_t n = 0;

    ret_text[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(rights_rows); i++)
        if (rights & rights_rows[i].right)
            n += (size_t)snprintf(ret_text + n, RIGHTS_TEXT_SIZE - n, "%s%s", n ? "," : "",
                                  rights_rows[i].name);
}
