/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error texts quote names from untrusted files. Therefore this file replaces control characters and
 * invalid UTF-8, which could break a terminal or a JSON text.
 */
#include "core/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

static void clean_text(char *text)
{
    size_t len = strlen(text), i = 0;

    while (i < len) {
        const size_t n = utf8_valid_prefix(text + i, len - i);

        for (size_t j = i; j < i + n; j++)
            if ((unsigned char)text[j] < 0x20 || text[j] == 0x7f)
                text[j] = ' ';
        i += n;
        if (i < len)
            text[i++] = '?';
    }
}

static void set_error(struct inf_err *err, int code, int64_t offset, const char *format, va_list ap)
{
    err->code = code;
    err->offset = offset;
    vsnprintf(err->text, sizeof(err->text), format, ap);
    clean_text(err->text);
}

int err_set(struct inf_err *err, int code, const char *format, ...)
{
    if (err) {
        va_list ap;

        va_start(ap, format);
        set_error(err, code, -1, format, ap);
        va_end(ap);
    }
    return -code;
}

int err_set_at(struct inf_err *err, int code, uint64_t offset, const char *format, ...)
{
    if (err) {
        va_list ap;

        va_start(ap, format);
        set_error(err, code, (int64_t)offset, format, ap);
        va_end(ap);
    }
    return -code;
}

void err_prefix(struct inf_err *err, const char *format, ...)
{
    char prefix[sizeof(err->text)], old[sizeof(err->text)];
    va_list ap;

    if (!err)
        return;
    va_start(ap, format);
    vsnprintf(prefix, sizeof(prefix), format, ap);
    va_end(ap);
    memcpy(old, err->text, sizeof(old));
    if (snprintf(err->text, sizeof(err->text), "%s: %s", prefix, old) < 0)
        memcpy(err->text, old, sizeof(old));
    clean_text(err->text);
}
