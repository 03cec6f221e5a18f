/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks limits of JSON texts before they are parsed, and writes JSON.
 *
 * Before jansson parses a text, one pass measures its depth and the memory that its values will
 * take. jansson's own limit for the depth is fixed at 2048 levels. jansson has no limit for memory,
 * and an empty object takes two bytes of text but 230 bytes of memory.
 */
#include "common/wire/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"

/* The bytes of memory that are counted for each value. A string also counts its characters. */
enum {
    COST_OBJECT = 240, /* an object, with a hash table of eight buckets */
    COST_ARRAY = 144,  /* an array, with a table of eight pointers */
    COST_STRING = 80,  /* a string, or a key of an object */
    COST_MEMBER = 48,  /* a member of an object, without its key and value */
    COST_ITEM = 48,    /* an item of an array, or a number */
};

struct json_scan {
    unsigned depth, max_depth;
    size_t cost;
};

/* Returns the end of the string whose opening quote is at @p. */
static const char *scan_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

/* Measures the depth and the memory of a text, and stops when a limit is exceeded. Invalid JSON
 * gets arbitrary results, because parsing it will fail. */
static struct json_scan json_scan(const char *p, size_t len, size_t max_cost)
{
    struct json_scan s = {.cost = COST_ITEM};
    const char *end = p + len, *start;

    while (p < end && s.cost <= max_cost && s.max_depth <= JSON_MAX_DEPTH) {
        switch (*p) {
        case '"':
            start = p;
            p = scan_string(p, end);
            s.cost += COST_STRING + (size_t)(p - start);
            continue;
        case '{':
        case '[':
            s.cost += *p == '{' ? COST_OBJECT : COST_ARRAY;
            s.depth++;
            s.max_depth = MAX(s.max_depth, s.depth);
            break;
        case '}':
        case ']':
            s.depth -= s.depth > 0;
            break;
        case ':':
            s.cost += COST_MEMBER;
            break;
        case ',':
            s.cost += COST_ITEM;
            break;
        default:
            break;
        }
        p++;
    }
    return s;
}

/* Returns the limit for the bytes of memory that the values of a text of @len bytes may take: 32 *
 * @len + 1 MiB, or 2 * @len + 64 MiB, whichever is less. */
static size_t json_max_memory(size_t len)
{
    return MIN(len * 32 + JSON_MEMORY_SMALL, len * 2 + JSON_MEMORY_LARGE);
}

/* Returns whether the text is an integer that does not fit into 64 bits. */
static bool number_is_wide(const char *digits, size_t n)
{
    static const char most[] = "9223372036854775807";
    const size_t n_most = sizeof(most) - 1;

    for (size_t i = 0; i < n; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return false;
    return n > n_most || (n == n_most && memcmp(digits, most, n) > 0);
}

/* Copies a text of JSON, and appends ".0" to the integers that do not fit into 64 bits. */
static int json_widen(const char *p, size_t len, struct str *out)
{
    const char *end = p + len, *start;
    int r = 0;

    while (p < end && r == 0) {
        start = p;
        if (*p == '"') {
            p = scan_string(p, end);
            r = str_append(out, start, (size_t)(p - start));
            continue;
        }
        while (p < end && *p && strchr("0123456789+-.eE", *p))
            p++;
        p += p == start;
        r = str_append(out, start, (size_t)(p - start));
        start += *start == '-';
        if (r == 0 && number_is_wide(start, (size_t)(p - start)))
            r = str_append(out, ".0", 2);
    }
    return r;
}

/* Parses a text. jansson refuses integers of more than 64 bits, so they are parsed as real
 * numbers. */
static json_t *json_load(const char *data, size_t len, json_error_t *reterror)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_t *json = json_loadb(data, len, flags, reterror);
    _cleanup_str_ struct str wide = {};
    json_error_t error;

    if (!json && json_error_code(reterror) == json_error_numeric_overflow &&
        json_widen(data, len, &wide) == 0)
        json = json_loadb(wide.data, wide.len, flags, &error);
    return json;
}

int json_parse_within(const char *data, size_t len, size_t *room, json_t **ret_json,
                      struct inf_err *reterr)
{
    const size_t valid = utf8_valid_prefix(data, len);
    struct json_scan scan;
    json_error_t error;
    json_t *json;

    if (valid != len)
        return err_set_at(reterr, EBADMSG, valid, "invalid UTF-8 at byte %zu", valid);
    scan = json_scan(data, len, *room);
    if (scan.max_depth > JSON_MAX_DEPTH)
        return err_set(reterr, EBADMSG, "nested deeper than %d levels", JSON_MAX_DEPTH);
    if (scan.cost > *room)
        return err_set(reterr, E2BIG, "its values take more than %.1f MiB of memory",
                       (double)*room / (1 << 20));
    json = json_load(data, len, &error);
    if (!json) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return err_set(reterr, ENOMEM, "out of memory");
        return err_set_at(reterr, EBADMSG, (uint64_t)MAX(error.position, 0),
                          "%s (line %d, column %d)", error.text, error.line, error.column);
    }
    *room -= scan.cost;
    *ret_json = json;
    return 0;
}

int json_parse(const char *data, size_t len, json_t **ret_json, struct inf_err *reterr)
{
    size_t room = json_max_memory(len);

    return json_parse_within(data, len, &room, ret_json, reterr);
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
