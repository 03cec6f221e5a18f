/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The values of a schema's text, and the values that are made from them. */

#include <string.h>

#include "core/macros.h"

struct schema;

enum value_type {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_OBJECT,
    VALUE_ALIAS, /* a schema that is not in the text and stands for another schema */
};

/* A JSON value. Elements of arrays and members of objects are lists in the order of the text. */
struct schema_value {
    enum value_type type;
    bool truth;
    bool is_base;          /* it has an $id */
    bool is_negation;      /* made by schema_negate() */
    bool checked, asserts; /* see schema_keyword_check() */
    uint32_t id;           /* number in the order of reading */
    uint32_t n;            /* elements or members */
    uint32_t index;        /* position in the parent array */
    const char *text;      /* decoded string, or digits of the number; NUL-terminated */
    size_t len;            /* bytes of text */
    const char *key;       /* name of a member; NULL for an element */
    size_t key_len;        /* bytes of key */
    struct schema_value *parent, *first, *last, *next;
    struct schema_value *base;     /* innermost schema around this one that has an $id */
    struct schema_value *alias;    /* VALUE_ALIAS: the schema for which it stands */
    struct schema_value *choices;  /* see schema-rewrite.c */
    struct schema_value *negation; /* see schema-negate.c */
};

/* Reads JSON. Sets s->root. */
bool schema_value_read(struct schema *s, const char *text, size_t len);
/* Returns the member @key of an object; NULL if there is none, or if @v is not an object. */
const struct schema_value *schema_get_n(const struct schema_value *v, const char *key, size_t len);

static inline const struct schema_value *schema_get(const struct schema_value *v, const char *key)
{
    return schema_get_n(v, key, strlen(key));
}

bool schema_equal(const struct schema_value *a, const struct schema_value *b);
static inline bool schema_is(const struct schema_value *v, const char *text)
{
    return v && v->type == VALUE_STRING && v->len == strlen(text) && !memcmp(v->text, text, v->len);
}
/* Makes a value that is not part of the text. Messages name the place of @origin. NULL if a limit
 * is reached. */
struct schema_value *schema_make(struct schema *s, enum value_type type,
                                 const struct schema_value *origin);
/* Appends @child to an array (@key is NULL) or an object. Returns NULL if @parent or @child is
 * NULL. */
struct schema_value *schema_add(struct schema *s, struct schema_value *parent, const char *key,
                                size_t key_len, struct schema_value *child);
struct schema_value *schema_make_alias(struct schema *s, const struct schema_value *of);
struct schema_value *schema_make_text(struct schema *s, enum value_type type, const char *text,
                                      size_t len, const struct schema_value *origin);
struct schema_value *schema_make_count(struct schema *s, uint32_t n,
                                       const struct schema_value *origin);
/* Copies a scalar. */
struct schema_value *schema_copy(struct schema *s, const struct schema_value *v);
struct schema_value *schema_make_bool(struct schema *s, bool truth,
                                      const struct schema_value *origin);

/* -- schema-decimal.c -- */

enum { DECIMAL_DIGITS = 64 };

/* A decimal number: ±digits[0…n_int) . digits[n_int…n_int+n_frac), without needless zeros. */
struct decimal {
    bool negative;
    uint8_t n_int, n_frac;
    char digits[2 * DECIMAL_DIGITS];
};

/* Returns false if @v is no number, or has too many digits. */
bool decimal_read(const struct schema_value *v, struct decimal *ret_decimal);
int decimal_compare(const struct decimal *a, const struct decimal *b);
/* Replaces a bound of numbers by a bound of integers. With @up the result is the smallest integer
 * that is not below @d, otherwise the largest that is not above. With @open, @d itself is
 * excluded. */
void decimal_to_integer(struct decimal *d, bool up, bool open);
/* Reads a count such as the value of minLength. Returns false if @v is not a count. */
bool schema_count(const struct schema_value *v, uint32_t *ret_count);
