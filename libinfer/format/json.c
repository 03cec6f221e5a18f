/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses untrusted JSON with jansson, which limits nesting to 2048.
 *
 * This is the only file of this folder that passes untrusted bytes to jansson. Callers limit the
 * size of the text. This file limits the number of values, because "[]" takes two bytes in a file
 * and 150 bytes in memory.
 */
#include "format/json.h"

#include <errno.h>
#include <string.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/file.h"

#define MAX_CONTAINERS ((size_t)1 << 20)
#define MAX_COMMAS     ((size_t)1 << 21)

/* Counts brackets and commas, including those in strings. No legitimate file comes near the
 * limits. */
static bool has_too_many_values(const char *text, size_t len)
{
    size_t n_containers = 0, n_commas = 0;

    for (size_t i = 0; i < len; i++) {
        n_containers += text[i] == '{' || text[i] == '[';
        n_commas += text[i] == ',';
    }
    return n_containers > MAX_CONTAINERS || n_commas > MAX_COMMAS;
}

int json_text_parse(const char *text, size_t len, unsigned flags, const char *what,
                    json_t **ret_object, struct inf_err *reterr)
{
    _cleanup_json_ json_t *j = NULL;
    json_error_t error;
    size_t how = 0;

    if (has_too_many_values(text, len))
        return err_set(reterr, EBADMSG, "%.96s: has too many values", what);
    if (flags & JSON_TEXT_BIG_INTS)
        how |= JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    if (!(flags & JSON_TEXT_DUPLICATES))
        how |= JSON_REJECT_DUPLICATES;
    j = json_loadb(text, len, how, &error);
    if (!j && json_error_code(&error) == json_error_out_of_memory)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!j)
        return err_set_at(reterr, EBADMSG, (uint64_t)MAX(error.position, 0), "%.96s:%d:%d: %s",
                          what, error.line, error.column, error.text);
    if (!json_is_object(j))
        return err_set_at(reterr, EBADMSG, 0, "%.96s: is not a JSON object", what);
    *ret_object = STEAL(j);
    return 0;
}

int json_text_read(const char *path, size_t max, unsigned flags, json_t **ret_object,
                   struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r;

    r = file_read(path, max, &text, &len, reterr);
    if (r < 0)
        return r;
    return json_text_parse(text, len, flags, path_base(path), ret_object, reterr);
}

bool json_text_of(const json_t *value, struct arena *arena, const char **ret_text)
{
    enum { LONGEST = 1024 };
    const size_t n = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    char *text;

    if (json_is_string(value)) {
        *ret_text = arena_strndup(arena, json_string_value(value), json_string_length(value));
        return *ret_text != NULL;
    }
    if (n > LONGEST) {
        *ret_text = json_is_array(value) ? "[…]" : "{…}";
        return true;
    }
    text = arena_alloc(arena, n + 1);
    if (!text)
        return false;
    text[json_dumpb(value, text, n, JSON_ENCODE_ANY | JSON_COMPACT)] = 0;
    *ret_text = text;
    return true;
}
