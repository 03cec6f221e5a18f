/* SPDX-License-Identifier: Apache-2.0 */
/* The depth is counted before jansson sees the text: its own limit is fixed at 2048 levels. */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"

static bool json_too_deep(const char *data, size_t len)
{
    unsigned depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        if (quoted) {
            if (data[i] == '\\')
                i++;
            else if (data[i] == '"')
                quoted = false;
        } else if (data[i] == '"') {
            quoted = true;
        } else if (data[i] == '[' || data[i] == '{') {
            if (++depth > JSON_MAX_DEPTH)
                return true;
        } else if ((data[i] == ']' || data[i] == '}') && depth) {
            depth--;
        }
    }
    return false;
}

int json_parse(const char *data, size_t len, json_t **ret_json, struct inf_err *reterr)
{
    const size_t valid = utf8_valid_prefix(data, len);
    json_error_t error;
    json_t *json;

    if (valid != len)
        return err_set_at(reterr, EBADMSG, valid, "invalid UTF-8 at byte %zu", valid);
    if (json_too_deep(data, len))
        return err_set(reterr, EBADMSG, "nested deeper than %d levels", JSON_MAX_DEPTH);
    json = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!json) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return err_set(reterr, ENOMEM, "out of memory");
        return err_set_at(reterr, EBADMSG, (uint64_t)MAX(error.position, 0),
                          "%s (line %d, column %d)", error.text, error.line, error.column);
    }
    *ret_json = json;
    return 0;
}

static int json_put_escaped(struct str *out, unsigned char c)
{
    switch (c) {
    case '"':
        return str_append(out, "\\\"", 2);
    case '\\':
        return str_append(out, "\\\\", 2);
    case '\n':
        return str_append(out, "\\n", 2);
    case '\r':
        return str_append(out, "\\r", 2);
    case '\t':
        return str_append(out, "\\t", 2);
    default:
        return str_printf(out, "\\u%04x", c);
    }
}

int json_put_string(struct str *out, const char *text, size_t len)
{
    size_t from = 0, i = 0;
    int r = str_putc(out, '"');

    while (r == 0 && i < len) {
        const unsigned char c = (unsigned char)text[i];
        size_t n = 1;

        if (c >= 0x80) {
            uint32_t cp;

            n = utf8_decode(text + i, len - i, &cp);
            if (n) {
                i += n;
                continue;
            }
            n = utf8_bad_length(text + i, len - i);
        } else if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i++;
            continue;
        }
        r = str_append(out, text + from, i - from);
        if (r == 0)
            r = c >= 0x80 ? str_puts(out, "\xef\xbf\xbd") : json_put_escaped(out, c);
        i += n;
        from = i;
    }
    r = r < 0 ? r : str_append(out, text + from, len - from);
    return r < 0 ? r : str_putc(out, '"');
}

int json_put_text(struct str *out, const char *text)
{
    return text ? json_put_string(out, text, strlen(text)) : str_puts(out, "null");
}

int json_put_uint(struct str *out, uint64_t value)
{
    char text[20];
    size_t at = sizeof(text);

    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return str_append(out, text + at, sizeof(text) - at);
}

int json_put_double(struct str *out, double value)
{
    char text[40];

    if (!isfinite(value))
        return str_puts(out, "null");
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return str_puts(out, text);
}
