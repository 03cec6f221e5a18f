/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the types of arguments, and writes plain text as values of these types. */
#include "chat/reply/arguments.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "chat/reply/literal.h"
#include "chat/reply/parser-state.h"
#include "common/wire/json.h"
#include "core/text.h"

#define SCHEMA_MAX_DEPTH 16
#define SCHEMA_MAX_STEPS 512 /* maximum number of schemas examined for one value */

static unsigned type_named(const json_t *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } rows[] = {
        {"string", VALUE_STRING},   {"integer", VALUE_INTEGER}, {"number", VALUE_NUMBER},
        {"boolean", VALUE_BOOLEAN}, {"null", VALUE_NULL},       {"object", VALUE_OBJECT},
        {"array", VALUE_ARRAY},
    };
    const char *text = json_string_value(name);

    for (size_t i = 0; text && i < ARRAY_SIZE(rows); i++)
        if (strcmp(rows[i].name, text) == 0)
            return rows[i].type;
    return 0;
}

static unsigned type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return VALUE_OBJECT;
    case JSON_ARRAY:
        return VALUE_ARRAY;
    case JSON_STRING:
        return VALUE_STRING;
    case JSON_INTEGER:
        return VALUE_INTEGER | VALUE_NUMBER;
    case JSON_REAL:
        return VALUE_NUMBER;
    case JSON_NULL:
        return VALUE_NULL;
    default:
        return VALUE_BOOLEAN;
    }
}

/* Finds the schema to which a reference such as "#/a/b" points; NULL: there is none. */
static json_t *schema_find(json_t *root, const char *ref)
{
    json_t *at = root;
    char name[128];

    if (!ref || ref[0] != '#')
        return NULL;
    for (ref++; *ref == '/' && at;) {
        const size_t n = strcspn(++ref, "/");

        if (n >= sizeof(name))
            return NULL;
        memcpy(name, ref, n);
        name[n] = '\0';
        at = json_object_get(at, name);
        ref += n;
    }
    return *ref ? NULL : at;
}

/* The state of the search for the types of one value. */
struct types {
    json_t *root;
    int depth, n_steps;
};

static unsigned types_of_any(struct types *t, json_t *list);

static unsigned types_of(struct types *t, json_t *schema);

static unsigned types_within(struct types *t, json_t *schema)
{
    unsigned types;

    t->depth++;
    types = types_of(t, schema);
    t->depth--;
    return types;
}

static unsigned types_of(struct types *t, json_t *schema)
{
    json_t *type = json_object_get(schema, "type"), *item, *list;
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    unsigned types = 0;
    size_t i;

    if (!json_is_object(schema) || t->depth == SCHEMA_MAX_DEPTH || t->n_steps++ > SCHEMA_MAX_STEPS)
        return VALUE_ANY;
    if (ref)
        return types_within(t, schema_find(t->root, ref));
    if (json_is_string(type))
        return type_named(type) ? type_named(type) : VALUE_ANY;
    json_array_foreach(type, i, item) types |= type_named(item);
    if (json_object_get(schema, "const"))
        return type_of(json_object_get(schema, "const"));
    json_array_foreach(json_object_get(schema, "enum"), i, item) types |= type_of(item);
    if (types)
        return types;
    list = json_object_get(schema, "anyOf");
    list = list ? list : json_object_get(schema, "oneOf");
    if (list)
        return types_of_any(t, list);
    types = VALUE_ANY;
    json_array_foreach(json_object_get(schema, "allOf"), i, item) types &= types_within(t, item);
    return types ? types : VALUE_ANY;
}

static unsigned types_of_any(struct types *t, json_t *list)
{
    unsigned types = 0;
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item) types |= types_within(t, item);
    return types ? types : VALUE_ANY;
}

unsigned value_types(json_t *root, json_t *schema)
{
    struct types t = {.root = root};

    return types_of(&t, schema);
}

unsigned arguments_types(json_t *parameters, const char *key)
{
    json_t *schema = json_object_get(json_object_get(parameters, "properties"), key);

    if (!schema)
        schema = json_object_get(parameters, "additionalProperties");
    return schema ? value_types(parameters, schema) : VALUE_ANY;
}

static bool value_fits(unsigned types, json_t *value)
{
    if (json_is_string(value))
        return false; /* a text in quotes stands for a string that includes the quotes */
    if (json_is_real(value) && (types & VALUE_INTEGER) && !(types & VALUE_NUMBER))
        return json_real_value(value) == floor(json_real_value(value));
    return type_of(value) & types;
}

/* Appends @text if it is JSON of one of the types. Returns 1: it was appended; 0: it is not such
 * JSON; -ENOMEM. */
static int put_json(unsigned types, const char *text, size_t len, struct str *out)
{
    _cleanup_json_ json_t *value = NULL;
    struct inf_err err;

    if (json_parse(text, len, &value, &err) < 0 || !value_fits(types, value))
        return 0;
    return str_append(out, text, len) < 0 ? -ENOMEM : 1;
}

/* Works like put_json(), but for literals of Python. */
static int put_literal(unsigned types, const char *text, size_t len, struct str *out)
{
    _cleanup_str_ struct str json = {};
    struct literal literal = {};
    size_t pos = 0;

    if (len > PARSER_MAX_HEAD ||
        literal_read(&literal, (struct literal_text){text, len, true}, &pos, &json) != STEP_DONE ||
        pos != len)
        return 0;
    return put_json(types, json.data, json.len, out);
}

int arguments_put_value(unsigned types, const char *text, size_t len, struct str *out)
{
    const char *trimmed = text;
    size_t n = len;
    int r = 0;

    while (n && parser_is_space(trimmed[0])) {
        trimmed++;
        n--;
    }
    while (n && parser_is_space(trimmed[n - 1]))
        n--;
    if (types != VALUE_STRING && n)
        r = put_json(types, trimmed, n, out);
    if (r == 0 && types != VALUE_STRING && n)
        r = put_literal(types, trimmed, n, out);
    if (r == 0)
        r = json_put_string(out, text, len);
    return r < 0 ? r : 0;
}

/* The states of the reader of a custom tool's input: the JSON object {"input": "TEXT"}. */
enum {
    CUSTOM_KEY,
    CUSTOM_VALUE, /* the opening quote comes next */
    CUSTOM_TEXT,
    CUSTOM_ESCAPE,
    CUSTOM_HEX,
    CUSTOM_END,
};

static void custom_put_code(struct reply_parser *p, uint32_t code)
{
    char bytes[4];
    size_t n;

    if (code >= 0xd800 && code < 0xdc00) {
        p->surrogate = code;
        return;
    }
    if (code >= 0xdc00 && code < 0xe000) {
        code = p->surrogate ? 0x10000 + ((p->surrogate - 0xd800) << 10) + (code - 0xdc00) : 0xfffd;
        p->surrogate = 0;
    }
    if (code < 0x80) {
        bytes[0] = (char)code;
        n = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        n = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        n = 3;
    } else {
        bytes[0] = (char)(0xf0 | code >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        bytes[i] = (char)(0x80 | (code >> (6 * (n - 1 - i)) & 0x3f));
    parser_emit(p, PIECE_INPUT, bytes, n);
}

static void custom_escape(struct reply_parser *p, char c)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    const char byte = found ? to[found - from] : c;

    p->custom = CUSTOM_TEXT;
    if (c == 'u') {
        p->custom = CUSTOM_HEX;
        p->n_hex = 0;
        p->code = 0;
    } else {
        parser_emit(p, PIECE_INPUT, &byte, 1);
    }
}

static void custom_hex(struct reply_parser *p, char c)
{
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c | 0x20) : NULL;

    p->code = p->code << 4 | (uint32_t)(found ? found - digits : 0);
    if (++p->n_hex < 4)
        return;
    p->custom = CUSTOM_TEXT;
    custom_put_code(p, p->code);
}

static void custom_byte(struct reply_parser *p, char c)
{
    switch (p->custom) {
    case CUSTOM_KEY:
        p->custom = c == ':' ? CUSTOM_VALUE : CUSTOM_KEY;
        break;
    case CUSTOM_VALUE:
        if (!parser_is_space(c))
            p->custom = c == '"' ? CUSTOM_TEXT : CUSTOM_END;
        break;
    case CUSTOM_TEXT:
        if (c == '\\')
            p->custom = CUSTOM_ESCAPE;
        else if (c == '"')
            p->custom = CUSTOM_END;
        else
            parser_emit(p, PIECE_INPUT, &c, 1);
        break;
    case CUSTOM_ESCAPE:
        custom_escape(p, c);
        break;
    case CUSTOM_HEX:
        custom_hex(p, c);
        break;
    default:
        break;
    }
}

void parser_arguments(struct reply_parser *p, const char *text, size_t len)
{
    if (p->drops || !p->tool)
        return;
    if (!p->tool->is_custom) {
        parser_emit(p, PIECE_ARGUMENTS, text, len);
        return;
    }
    for (size_t i = 0; i < len; i++)
        custom_byte(p, text[i]);
}
