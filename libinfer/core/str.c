/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements byte strings that grow.
 */
#include "core/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"

int str_reserve(struct str *s, size_t more)
{
    size_t need;

    if (__builtin_add_overflow(s->len, more, &need) || need == SIZE_MAX ||
        ARRAY_GROW(s->data, s->cap, MAX(need + 1, (size_t)32)) < 0)
        return -ENOMEM;
    s->data[s->len] = 0;
    return 0;
}

int str_append(struct str *s, const void *data, size_t len)
{
    const int r = str_reserve(s, len);

    if (r < 0)
        return r;
    if (len)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = 0;
    return 0;
}

int str_puts(struct str *s, const char *text)
{
    return str_append(s, text, strlen(text));
}

int str_putc(struct str *s, char c)
{
    return str_append(s, &c, 1);
}

int str_printf(struct str *s, const char *format, ...)
{
    va_list ap;
    int n, r;

    va_start(ap, format);
    n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0)
        return -EINVAL;
    r = str_reserve(s, (size_t)n);
    if (r < 0)
        return r;
    va_start(ap, format);
    vsnprintf(s->data + s->len, (size_t)n + 1, format, ap);
    va_end(ap);
    s->len += (size_t)n;
    return 0;
}

void str_cut(struct str *s, size_t n)
{
    s->len -= n;
    memmove(s->data, s->data + n, s->len + 1);
}

void str_clear(struct str *s)
{
    s->len = 0;
    if (s->data)
        s->data[0] = 0;
}

void str_done(struct str *s)
{
    free(s->data);
    *s = (struct str){0};
}

char *str_take(struct str *s, size_t *ret_len)
{
    char *p;

    if (str_reserve(s, 0) < 0)
        return NULL;
    p = s->data;
    if (ret_len)
        *ret_len = s->len;
    *s = (struct str){0};
    return p;
}
