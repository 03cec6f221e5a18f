/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that no value satisfies two schemas, in the simple cases that are common in oneOf
 *
 * Two schemas are disjoint in three cases: their types or the values of their enums are disjoint;
 * one of them requires a property, and the two schemas of this property are disjoint; or one of
 * them requires a property that the other one forbids.
 */
#include <string.h>

#include "grammar/schema.h"

enum { DISJOINT_DEPTH = 6 };

static bool disjoint(struct schema *s, const struct schema_value *a, const struct schema_value *b,
                     unsigned depth);

static const struct schema_value *disjoint_values(const struct schema_value *v, bool *ret_one)
{
    const struct schema_value *one = schema_get(v, "const"), *list = schema_get(v, "enum");

    *ret_one = one != NULL;
    return one ? one : list && list->type == VALUE_ARRAY ? list : NULL;
}

static unsigned disjoint_types(const struct schema_value *v)
{
    const struct schema_value *list;
    unsigned types = schema_types(v), some = 0;
    bool one;

    list = disjoint_values(v, &one);
    if (!list)
        return types;
    if (one)
        return types & schema_value_type(list);
    for (list = list->first; list; list = list->next)
        some |= schema_value_type(list);
    return types & some;
}

static bool disjoint_enums(struct schema *s, const struct schema_value *a,
                           const struct schema_value *b)
{
    bool one_a, one_b;
    const struct schema_value *x = disjoint_values(a, &one_a), *y = disjoint_values(b, &one_b);

    if (!x || !y)
        return false;
    for (const struct schema_value *i = one_a ? x : x->first; i; i = one_a ? NULL : i->next)
        for (const struct schema_value *k = one_b ? y : y->first; k; k = one_b ? NULL : k->next)
            if (schema_equal(i, k) || !schema_step(s, a, 1))
                return false;
    return true;
}

static bool disjoint_requires(const struct schema_value *v, const char *name, size_t len)
{
    v = schema_get(v, "required");
    for (v = v && v->type == VALUE_ARRAY ? v->first : NULL; v; v = v->next)
        if (v->type == VALUE_STRING && v->len == len && memcmp(v->text, name, len) == 0)
            return true;
    return false;
}

/* Returns whether there is a property that one schema requires, and for which the two schemas
 * declare disjoint schemas. */
static bool disjoint_properties(struct schema *s, const struct schema_value *a,
                                const struct schema_value *b, unsigned depth)
{
    const struct schema_value *m = schema_get(a, "properties"),
                              *others = schema_get(b, "properties");

    for (m = m && m->type == VALUE_OBJECT ? m->first : NULL; m; m = m->next) {
        const struct schema_value *other = schema_get_n(others, m->key, m->key_len);

        if (!other || !schema_step(s, a, 1))
            continue;
        if ((disjoint_requires(a, m->key, m->key_len) ||
             disjoint_requires(b, m->key, m->key_len)) &&
            disjoint(s, m, other, depth - 1))
            return true;
    }
    return false;
}

/* Returns whether @a requires a property that @b forbids. */
static bool disjoint_closed(const struct schema_value *a, const struct schema_value *b)
{
    const struct schema_value *m = schema_get(a, "required");
    const struct schema_value *closed = schema_get(b, "additionalProperties");
    const struct schema_value *properties = schema_get(b, "properties");

    if (!closed || closed->type != VALUE_BOOL || closed->truth ||
        schema_get(b, "patternProperties"))
        return false;
    for (m = m && m->type == VALUE_ARRAY ? m->first : NULL; m; m = m->next)
        if (m->type == VALUE_STRING && !schema_get_n(properties, m->text, m->len))
            return true;
    return false;
}

/* Returns whether @b is disjoint from @v because of the schemas that $ref, allOf, anyOf or oneOf of
 * @v apply to the same place. */
static bool disjoint_below(struct schema *s, const struct schema_value *v,
                           const struct schema_value *b, unsigned depth)
{
    const struct schema_value *m = schema_get(v, "$ref"), *any = schema_get(v, "anyOf");

    if (m && m->type == VALUE_STRING) {
        m = schema_ref_resolve(s, v, m);
        if (m && disjoint(s, m, b, depth - 1))
            return true;
    }
    m = schema_get(v, "allOf");
    for (m = m ? m->first : NULL; m; m = m->next)
        if (disjoint(s, m, b, depth - 1))
            return true;
    if (!any)
        any = schema_get(v, "oneOf");
    if (!any || any->n == 0)
        return false;
    for (m = any->first; m; m = m->next)
        if (!disjoint(s, m, b, depth - 1))
            return false;
    return true;
}

static bool disjoint(struct schema *s, const struct schema_value *a, const struct schema_value *b,
                     unsigned depth)
{
    unsigned types_a, types_b;

    while (a->type == VALUE_ALIAS)
        a = a->alias;
    while (b->type == VALUE_ALIAS)
        b = b->alias;
    if (depth == 0 || work_add(&s->b->work, WORK_DISJOINT) < 0 || !schema_step(s, a, 1))
        return false;
    if (a->type != VALUE_OBJECT || b->type != VALUE_OBJECT)
        return (a->type == VALUE_BOOL && !a->truth) || (b->type == VALUE_BOOL && !b->truth);
    types_a = disjoint_types(a);
    types_b = disjoint_types(b);
    if ((types_a & types_b) == 0 || disjoint_enums(s, a, b))
        return true;
    if (types_a == TYPE_OBJECT && types_b == TYPE_OBJECT &&
        (disjoint_properties(s, a, b, depth) || disjoint_closed(a, b) || disjoint_closed(b, a)))
        return true;
    return disjoint_below(s, a, b, depth) || disjoint_below(s, b, a, depth);
}

bool schema_disjoint(struct schema *s, const struct schema_value *a, const struct schema_value *b)
{
    return disjoint(s, a, b, DISJOINT_DEPTH);
}
