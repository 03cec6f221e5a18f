/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON into a tree that keeps the digits of numbers, the order of members, and the place of
 * each value.
 *
 * The other JSON parsers of this project keep numbers as 64-bit values, but bounds such as
 * 18446744073709551615 and 0.1 must stay exact here. If a name occurs twice in an object, the text
 * is refused, because two programs could read it in two ways.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "grammar/schema.h"

struct cursor {
    struct schema *s;
    const char *start, *p, *end;
    unsigned depth;
};

static struct schema_value *read_value(struct cursor *c, struct schema_value *parent);

static bool cursor_fail(struct cursor *c, const char *text)
{
    if (c->s->r == 0)
        c->s->r = err_set_at(c->s->reterr, EINVAL, (uint64_t)(c->p - c->start),
                             "the schema is not valid JSON: %s at byte %zu", text,
                             (size_t)(c->p - c->start));
    return false;
}

static bool cursor_short_of_memory(struct schema *s)
{
    if (s->r == 0)
        s->r = err_set(s->reterr, ENOMEM, "out of memory");
    return false;
}

static void cursor_blanks(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool cursor_take(struct cursor *c, char ch)
{
    if (c->p >= c->end || *c->p != ch)
        return false;
    c->p++;
    return true;
}

static struct schema_value *value_new(struct schema *s, enum value_type type)
{
    struct schema_value *v = NULL;

    if (s->r < 0)
        return NULL;
    if (s->n_values >= SCHEMA_MAX_VALUES || s->arena.used > SCHEMA_MAX_MEMORY) {
        s->r = err_set(s->reterr, E2BIG, "the schema is too large: it has more than %d values",
                       SCHEMA_MAX_VALUES);
        return NULL;
    }
    v = arena_zalloc(&s->arena, sizeof(*v));
    if (!v) {
        cursor_short_of_memory(s);
        return NULL;
    }
    v->type = type;
    v->id = s->n_values++;
    return v;
}

static void value_link(struct schema_value *parent, struct schema_value *child)
{
    child->parent = parent;
    child->index = parent->n++;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
}

/* -- strings and numbers -- */

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    if (ch >= 'a' && ch <= 'f')
        return ch - 'a' + 10;
    return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}

static bool read_hex(struct cursor *c, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    if (c->end - c->p < 4)
        return cursor_fail(c, "an incomplete escape");
    for (int i = 0; i < 4; i++) {
        const int d = hex_digit(*c->p);

        if (d < 0)
            return cursor_fail(c, "an invalid escape");
        unit = unit * 16 + (uint32_t)d;
        c->p++;
    }
    *ret_unit = unit;
    return true;
}

static bool read_unicode_escape(struct cursor *c, char **out)
{
    uint32_t cp, low;

    if (!read_hex(c, &cp))
        return false;
    if (cp >= 0xd800 && cp <= 0xdbff) {
        if (c->end - c->p < 2 || c->p[0] != '\\' || c->p[1] != 'u')
            return cursor_fail(c, "half of a surrogate pair");
        c->p += 2;
        if (!read_hex(c, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return cursor_fail(c, "half of a surrogate pair");
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
    }
    if (cp >= 0xd800 && cp <= 0xdfff)
        return cursor_fail(c, "half of a surrogate pair");
    *out += utf8_encode(cp, *out);
    return true;
}

static bool read_escape(struct cursor *c, char **out)
{
    static const char names[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
    const char *at;

    if (c->p >= c->end)
        return cursor_fail(c, "a string without end");
    if (*c->p == 'u') {
        c->p++;
        return read_unicode_escape(c, out);
    }
    at = *c->p ? strchr(names, *c->p) : NULL;
    if (!at)
        return cursor_fail(c, "an invalid escape");
    c->p++;
    *(*out)++ = chars[at - names];
    return true;
}

static bool read_string(struct cursor *c, const char **ret_text, size_t *ret_len)
{
    const char *close = c->p;
    char *text, *out;

    if (!cursor_take(c, '"'))
        return cursor_fail(c, "a string was expected");
    for (close = c->p; close < c->end && *close != '"'; close++)
        close += *close == '\\' && close + 1 < c->end;
    if (close >= c->end)
        return cursor_fail(c, "a string without end");
    text = out = arena_alloc(&c->s->arena, (size_t)(close - c->p) + 1);
    if (!text)
        return cursor_short_of_memory(c->s);
    while (c->p < close) {
        if ((unsigned char)*c->p < 0x20)
            return cursor_fail(c, "a control character in a string");
        if (*c->p != '\\')
            *out++ = *c->p++;
        else if (c->p++, !read_escape(c, &out))
            return false;
    }
    c->p = close + 1;
    *out = 0;
    if (!utf8_valid(text, (size_t)(out - text)))
        return cursor_fail(c, "invalid UTF-8");
    *ret_text = text;
    *ret_len = (size_t)(out - text);
    return true;
}

static bool is_digit(const struct cursor *c)
{
    return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

static bool read_digits(struct cursor *c)
{
    if (!is_digit(c))
        return cursor_fail(c, "an invalid number");
    while (is_digit(c))
        c->p++;
    return true;
}

static struct schema_value *read_number(struct cursor *c)
{
    struct schema_value *v = value_new(c->s, VALUE_NUMBER);
    const char *start = c->p;

    if (!v)
        return NULL;
    cursor_take(c, '-');
    if (!cursor_take(c, '0') && !read_digits(c))
        return NULL;
    if (cursor_take(c, '.') && !read_digits(c))
        return NULL;
    if (cursor_take(c, 'e') || cursor_take(c, 'E')) {
        if (!cursor_take(c, '-'))
            cursor_take(c, '+');
        if (!read_digits(c))
            return NULL;
    }
    v->len = (size_t)(c->p - start);
    v->text = arena_strndup(&c->s->arena, start, v->len);
    if (!v->text)
        cursor_short_of_memory(c->s);
    return v->text ? v : NULL;
}

/* -- arrays and objects -- */

static struct schema_value *read_array(struct cursor *c)
{
    struct schema_value *v = value_new(c->s, VALUE_ARRAY);

    c->p++;
    cursor_blanks(c);
    if (!v || cursor_take(c, ']'))
        return v;
    for (;;) {
        if (!read_value(c, v))
            return NULL;
        cursor_blanks(c);
        if (cursor_take(c, ']'))
            return v;
        if (!cursor_take(c, ',')) {
            cursor_fail(c, "',' or ']' was expected");
            return NULL;
        }
    }
}

static bool read_member(struct cursor *c, struct schema_value *object, struct map *names)
{
    const char *key;
    size_t key_len;
    int r;

    cursor_blanks(c);
    if (!read_string(c, &key, &key_len))
        return false;
    cursor_blanks(c);
    if (!cursor_take(c, ':'))
        return cursor_fail(c, "':' was expected");
    r = map_put(names, key, key_len, 0);
    if (r == MAP_EXISTS)
        return cursor_fail(c, "a name that occurs twice in an object");
    if (r < 0)
        return cursor_short_of_memory(c->s);
    if (!read_value(c, object))
        return false;
    object->last->key = key;
    object->last->key_len = key_len;
    return true;
}

static bool read_members(struct cursor *c, struct schema_value *object, struct map *names)
{
    for (;;) {
        if (!read_member(c, object, names))
            return false;
        cursor_blanks(c);
        if (cursor_take(c, '}'))
            return true;
        if (!cursor_take(c, ','))
            return cursor_fail(c, "',' or '}' was expected");
    }
}

static struct schema_value *read_object(struct cursor *c)
{
    struct schema_value *v = value_new(c->s, VALUE_OBJECT);
    struct map names = {0};
    bool ok;

    c->p++;
    cursor_blanks(c);
    if (!v || cursor_take(c, '}'))
        return v;
    ok = read_members(c, v, &names);
    map_done(&names);
    return ok ? v : NULL;
}

static struct schema_value *read_word(struct cursor *c)
{
    static const struct {
        const char *word;
        size_t len;
        enum value_type type;
        bool truth;
    } words[] = {{"true", 4, VALUE_BOOL, true},
                 {"false", 5, VALUE_BOOL, false},
                 {"null", 4, VALUE_NULL, false}};
    struct schema_value *v = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if ((size_t)(c->end - c->p) < words[i].len ||
            memcmp(c->p, words[i].word, words[i].len) != 0)
            continue;
        v = value_new(c->s, words[i].type);
        if (v)
            v->truth = words[i].truth;
        c->p += words[i].len;
        return v;
    }
    cursor_fail(c, "a value was expected");
    return NULL;
}

static struct schema_value *read_string_value(struct cursor *c)
{
    struct schema_value *v = value_new(c->s, VALUE_STRING);

    return v && read_string(c, &v->text, &v->len) ? v : NULL;
}

static struct schema_value *read_any(struct cursor *c)
{
    switch (c->p < c->end ? *c->p : 0) {
    case '{':
        return read_object(c);
    case '[':
        return read_array(c);
    case '"':
        return read_string_value(c);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return read_number(c);
    default:
        return read_word(c);
    }
}

/* Reads a value, and appends it to @parent unless that is NULL. */
static struct schema_value *read_value(struct cursor *c, struct schema_value *parent)
{
    struct schema_value *v;

    cursor_blanks(c);
    if (c->depth >= SCHEMA_MAX_DEPTH) {
        if (c->s->r == 0)
            c->s->r = err_set(c->s->reterr, E2BIG, "the schema is nested deeper than %d levels",
                              SCHEMA_MAX_DEPTH);
        return NULL;
    }
    c->depth++;
    v = read_any(c);
    c->depth--;
    if (v && parent)
        value_link(parent, v);
    return v;
}

bool schema_value_read(struct schema *s, const char *text, size_t len)
{
    struct cursor c = {.s = s, .start = text, .p = text, .end = text + len};

    if (len > SCHEMA_MAX_TEXT) {
        s->r = err_set(s->reterr, E2BIG, "the schema is longer than %d bytes", SCHEMA_MAX_TEXT);
        return false;
    }
    s->root = read_value(&c, NULL);
    if (!s->root)
        return false;
    cursor_blanks(&c);
    return c.p == c.end || cursor_fail(&c, "more text after the schema");
}

/* -- use -- */

const struct schema_value *schema_get_n(const struct schema_value *v, const char *key, size_t len)
{
    if (!v || v->type != VALUE_OBJECT)
        return NULL;
    for (const struct schema_value *m = v->first; m; m = m->next)
        if (m->key_len == len && (len == 0 || m->key[len - 1] == key[len - 1]) &&
            memcmp(m->key, key, len) == 0)
            return m;
    return NULL;
}

/* Returns whether a number is an integer that is written in the only way without an exponent. */
static bool number_is_plain(const struct schema_value *v)
{
    if (v->len == 0 || v->len > 15 || v->text[0] == '0' || v->text[0] == '-')
        return false;
    for (size_t i = 0; i < v->len; i++)
        if (v->text[i] < '0' || v->text[i] > '9')
            return false;
    return true;
}

static bool equal_numbers(const struct schema_value *a, const struct schema_value *b)
{
    struct decimal x, y;

    if (number_is_plain(a) && number_is_plain(b))
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    if (decimal_read(a, &x) && decimal_read(b, &y))
        return decimal_compare(&x, &y) == 0;
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static bool equal_objects(const struct schema_value *a, const struct schema_value *b)
{
    for (const struct schema_value *m = a->first; m; m = m->next) {
        const struct schema_value *other = schema_get_n(b, m->key, m->key_len);

        if (!other || !schema_equal(m, other))
            return false;
    }
    return a->n == b->n;
}

static bool equal_arrays(const struct schema_value *a, const struct schema_value *b)
{
    const struct schema_value *x = a->first, *y = b->first;

    if (a->n != b->n)
        return false;
    for (; x; x = x->next, y = y->next)
        if (!schema_equal(x, y))
            return false;
    return true;
}

bool schema_equal(const struct schema_value *a, const struct schema_value *b)
{
    if (a == b)
        return true;
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case VALUE_NULL:
        return true;
    case VALUE_BOOL:
        return a->truth == b->truth;
    case VALUE_NUMBER:
        return equal_numbers(a, b);
    case VALUE_STRING:
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    case VALUE_ARRAY:
        return equal_arrays(a, b);
    case VALUE_OBJECT:
        return equal_objects(a, b);
    default:
        return a->alias == b->alias;
    }
}

struct schema_value *schema_make(struct schema *s, enum value_type type,
                                 const struct schema_value *origin)
{
    struct schema_value *v = value_new(s, type);

    if (v && origin) {
        v->parent = origin->parent;
        v->key = origin->key;
        v->key_len = origin->key_len;
        v->index = origin->index;
        v->base = origin->base;
    }
    return v;
}

struct schema_value *schema_add(struct schema *s, struct schema_value *parent, const char *key,
                                size_t key_len, struct schema_value *child)
{
    if (!parent || !child || s->r < 0)
        return NULL;
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->n++;
    child->key = key;
    child->key_len = key_len;
    /* Messages name the place of the parent. */
    child->parent = parent;
    child->index = UINT32_MAX;
    return parent;
}

struct schema_value *schema_make_alias(struct schema *s, const struct schema_value *of)
{
    struct schema_value *v = of ? schema_make(s, VALUE_ALIAS, of) : NULL;

    if (v)
        v->alias = (struct schema_value *)of;
    return v;
}

struct schema_value *schema_make_text(struct schema *s, enum value_type type, const char *text,
                                      size_t len, const struct schema_value *origin)
{
    struct schema_value *v = schema_make(s, type, origin);

    if (!v)
        return NULL;
    v->len = len;
    v->text = arena_strndup(&s->arena, text, len);
    if (!v->text)
        cursor_short_of_memory(s);
    return v->text ? v : NULL;
}

struct schema_value *schema_copy(struct schema *s, const struct schema_value *v)
{
    struct schema_value *copy = schema_make(s, v->type, v);

    if (copy) {
        copy->truth = v->truth;
        copy->text = v->text;
        copy->len = v->len;
    }
    return copy;
}

struct schema_value *schema_make_bool(struct schema *s, bool truth,
                                      const struct schema_value *origin)
{
    struct schema_value *v = schema_make(s, VALUE_BOOL, origin);

    if (v)
        v->truth = truth;
    return v;
}

struct schema_value *schema_make_count(struct schema *s, uint32_t n,
                                       const struct schema_value *origin)
{
    char text[16];
    size_t len = sizeof(text);

    do {
        text[--len] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return schema_make_text(s, VALUE_NUMBER, text + len, sizeof(text) - len, origin);
}
