/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of a query (see query.h). */
#include "common/http/query.h"

#include <stdlib.h>

void query_decode(char *s)
{
    char *out = s;

    for (; *s; s++) {
        char hex[3] = {s[0] == '%' ? s[1] : 0, s[0] == '%' && s[1] ? s[2] : 0};
        char *end;
        const long c = strtol(hex, &end, 16);

        if (hex[0] && hex[1] && !*end && c > 0) {
            *out++ = (char)c;
            s += 2;
        } else {
            *out++ = *s;
        }
    }
    *out = '\0';
}

char *query_find(struct http_text query, const char *name)
{
    const size_t n = strlen(name);
    const char *at = query.data, *end = query.data + query.len;
    char *value;

    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        const size_t len = (size_t)((next ? next : end) - at);

        if (len > n && memcmp(at, name, n) == 0 && at[n] == '=') {
            value = strndup(at + n + 1, len - n - 1);
            for (char *c = value; c && *c; c++)
                *c = *c == '+' ? ' ' : *c;
            if (value)
                query_decode(value);
            return value;
        }
        at += len + 1;
    }
    return NULL;
}
