/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `not`: makes a schema that permits the values that another schema does not permit
 *
 * A value violates a schema if it violates one of its keywords. So the result is an anyOf with one
 * schema, or a few, for each keyword. Most of them also name a type, because values of other types
 * satisfy the keyword. Schemas inside of the result are written as {"not": …}, and are negated when
 * they are needed.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

struct negation {
    struct schema *s;
    struct schema_value *ways;
};

static struct schema_value *negation_text(struct negation *g, const char *text,
                                          const struct schema_value *at)
{
    return schema_make_text(g->s, VALUE_STRING, text, strlen(text), at);
}

/* Makes a schema that has a type and one other keyword. */
static struct schema_value *negation_typed(struct negation *g, const char *type, const char *key,
                                           struct schema_value *value,
                                           const struct schema_value *at)
{
    struct schema_value *v = schema_make(g->s, VALUE_OBJECT, at);

    schema_add(g->s, v, "type", 4, negation_text(g, type, at));
    return value ? schema_add(g->s, v, key, strlen(key), value) : NULL;
}

static bool negation_push(struct negation *g, struct schema_value *way)
{
    return schema_add(g->s, g->ways, NULL, 0, way) != NULL;
}

static struct schema_value *negation_not(struct negation *g, const struct schema_value *v)
{
    struct schema_value *out = schema_make(g->s, VALUE_OBJECT, v);

    return schema_add(g->s, out, "not", 3, schema_make_alias(g->s, v));
}

static struct schema_value *negation_array(struct negation *g, const struct schema_value *at,
                                           struct schema_value *one)
{
    struct schema_value *list = schema_make(g->s, VALUE_ARRAY, at);

    return schema_add(g->s, list, NULL, 0, one);
}

/* -- keywords -- */

static bool negation_types(struct negation *g, const struct schema_value *v,
                           const struct schema_value *m)
{
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {{TYPE_NULL, "null"},          {TYPE_BOOLEAN, "boolean"}, {TYPE_INTEGER, "integer"},
                 {TYPE_FRACTION, " fraction"}, {TYPE_STRING, "string"},   {TYPE_ARRAY, "array"},
                 {TYPE_OBJECT, "object"}};
    const unsigned types = TYPE_ANY & ~schema_types(v);
    struct schema_value *list = schema_make(g->s, VALUE_ARRAY, m);
    struct schema_value *out = schema_make(g->s, VALUE_OBJECT, m);

    if (types == 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (types & names[i].type &&
            !schema_add(g->s, list, NULL, 0, negation_text(g, names[i].name, m)))
            return false;
    return negation_push(g, schema_add(g->s, out, "type", 4, list));
}

/* Adds a schema that permits all values except those of an enum. */
static bool negation_values(struct negation *g, const struct schema_value *list)
{
    struct schema_value *all = schema_make(g->s, VALUE_ARRAY, list);
    struct schema_value *scalars = schema_make(g->s, VALUE_ARRAY, list);
    struct schema_value *out = schema_make(g->s, VALUE_OBJECT, list);
    struct schema_value *excluded = schema_make(g->s, VALUE_OBJECT, list);

    for (const struct schema_value *m = list->first; m; m = m->next) {
        const bool nested = m->type == VALUE_ARRAY || m->type == VALUE_OBJECT;
        const struct schema_value *one = nested ? schema_constant(g->s, m) : NULL;

        if (nested ? !one || !schema_add(g->s, all, NULL, 0, negation_not(g, one))
                   : !schema_add(g->s, scalars, NULL, 0, schema_copy(g->s, m)))
            return false;
    }
    schema_add(g->s, excluded, " excluded", 9, scalars);
    if (!schema_add(g->s, all, NULL, 0, excluded))
        return false;
    return negation_push(g, schema_add(g->s, out, "allOf", 5, all));
}

static bool negation_const(struct negation *g, const struct schema_value *v)
{
    struct schema_value *list;

    if (v->type == VALUE_ARRAY || v->type == VALUE_OBJECT)
        return negation_push(g, negation_not(g, schema_constant(g->s, v)));
    list = negation_array(g, v, schema_copy(g->s, v));
    return list && negation_values(g, list);
}

static struct schema_value *negation_absent(struct negation *g, const char *name, size_t len,
                                            const struct schema_value *at)
{
    struct schema_value *properties = schema_make(g->s, VALUE_OBJECT, at);

    properties = schema_add(g->s, properties, name, len, schema_make_bool(g->s, false, at));
    return negation_typed(g, "object", "properties", properties, at);
}

static bool negation_required(struct negation *g, const struct schema_value *list)
{
    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!negation_push(g, negation_absent(g, m->text, m->len, m)))
            return false;
    return true;
}

static bool negation_properties(struct negation *g, const struct schema_value *list)
{
    for (const struct schema_value *m = list->first; m; m = m->next) {
        struct schema_value *properties = schema_make(g->s, VALUE_OBJECT, m);
        struct schema_value *way, *names;

        names = negation_array(g, m, schema_make_text(g->s, VALUE_STRING, m->key, m->key_len, m));
        properties = schema_add(g->s, properties, m->key, m->key_len, negation_not(g, m));
        way = negation_typed(g, "object", "properties", properties, m);
        if (!way || !schema_add(g->s, way, "required", 8, names) || !negation_push(g, way))
            return false;
    }
    return true;
}

/* Keywords that limit a count, each with the keyword that violates it. For example, an array that
 * satisfies `maxItems` n - 1 violates `minItems` n. */
static const struct count_pair {
    const char *name, *type, *opposite;
    int step;
} count_pairs[] = {
    {"minLength", "string", "maxLength", -1},
    {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},
    {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
};

static const struct bound_pair {
    const char *name, *opposite;
} bound_pairs[] = {{"minimum", "exclusiveMaximum"},
                   {"maximum", "exclusiveMinimum"},
                   {"exclusiveMinimum", "maximum"},
                   {"exclusiveMaximum", "minimum"}};

static bool negation_count(struct negation *g, const struct schema_value *m,
                           const struct count_pair *pair)
{
    uint32_t n = 0;

    if (!schema_count(m, &n) || (n == 0 && pair->step < 0))
        return g->s->r == 0;
    n = pair->step < 0 ? n - 1 : n + 1;
    return negation_push(
        g, negation_typed(g, pair->type, pair->opposite, schema_make_count(g->s, n, m), m));
}

static bool negation_bound(struct negation *g, const struct schema_value *v,
                           const struct schema_value *m, const struct bound_pair *pair)
{
    const char *exclusive = pair->name[1] == 'i' ? "exclusiveMinimum" : "exclusiveMaximum";
    const struct schema_value *flag = schema_get(v, exclusive);
    const char *opposite = pair->opposite;

    if (m->type != VALUE_NUMBER)
        return true; /* the flag of draft 4 */
    if (flag && flag != m && flag->type == VALUE_BOOL && flag->truth)
        opposite = pair->name[1] == 'i' ? "maximum" : "minimum";
    return negation_push(g, negation_typed(g, "number", opposite, schema_copy(g->s, m), m));
}

/* Adds a schema of arrays that are long enough to have element @i, and whose element @i violates
 * its schema. */
static bool negation_element(struct negation *g, const struct schema_value *m, uint32_t i)
{
    struct schema_value *prefix = schema_make(g->s, VALUE_ARRAY, m), *way;

    for (uint32_t k = 0; k < i; k++)
        if (!schema_add(g->s, prefix, NULL, 0, schema_make_bool(g->s, true, m)))
            return false;
    prefix = schema_add(g->s, prefix, NULL, 0, negation_not(g, m));
    way = negation_typed(g, "array", "prefixItems", prefix, m);
    return schema_add(g->s, way, "minItems", 8, schema_make_count(g->s, i + 1, m)) &&
           negation_push(g, way);
}

static bool negation_prefix(struct negation *g, const struct schema_value *list)
{
    uint32_t i = 0;

    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!negation_element(g, m, i++) || !schema_step(g->s, m, i))
            return false;
    return true;
}

static bool negation_items(struct negation *g, const struct schema_value *v,
                           const struct schema_value *items)
{
    if (items->type == VALUE_ARRAY)
        return negation_prefix(g, items);
    if (schema_get(v, "prefixItems")) {
        schema_fail(g->s, EINVAL, items, "'not' is not supported around elements after a tuple");
        return false;
    }
    return negation_push(g, negation_typed(g, "array", "contains", negation_not(g, items), items));
}

static bool negation_contains(struct negation *g, const struct schema_value *v,
                              const struct schema_value *m)
{
    if (schema_get(v, "minContains") || schema_get(v, "maxContains")) {
        schema_fail(g->s, EINVAL, m, "'not' is not supported around minContains and maxContains");
        return false;
    }
    return negation_push(g, negation_typed(g, "array", "items", negation_not(g, m), m));
}

static bool negation_all(struct negation *g, const struct schema_value *list)
{
    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!negation_push(g, negation_not(g, m)))
            return false;
    return true;
}

static bool negation_any(struct negation *g, const struct schema_value *list)
{
    struct schema_value *all = schema_make(g->s, VALUE_ARRAY, list);
    struct schema_value *out = schema_make(g->s, VALUE_OBJECT, list);

    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!schema_add(g->s, all, NULL, 0, negation_not(g, m)))
            return false;
    return negation_push(g, schema_add(g->s, out, "allOf", 5, all));
}

static bool negation_keyword(struct negation *g, const struct schema_value *v,
                             const struct schema_value *m);

/* Negates a keyword of count_pairs or bound_pairs. *ret_known tells whether @m is such a
 * keyword. */
static bool negation_pair(struct negation *g, const struct schema_value *v,
                          const struct schema_value *m, bool *ret_known)
{
    *ret_known = true;
    for (size_t i = 0; i < ARRAY_SIZE(count_pairs); i++)
        if (strcmp(count_pairs[i].name, m->key) == 0)
            return negation_count(g, m, &count_pairs[i]);
    for (size_t i = 0; i < ARRAY_SIZE(bound_pairs); i++)
        if (strcmp(bound_pairs[i].name, m->key) == 0)
            return negation_bound(g, v, m, &bound_pairs[i]);
    *ret_known = false;
    return true;
}

static bool key_is(const struct schema_value *m, const char *key)
{
    return strcmp(m->key, key) == 0;
}

static bool negation_ref(struct negation *g, const struct schema_value *v,
                         const struct schema_value *m)
{
    const struct schema_value *to = schema_ref_resolve(g->s, v, m);

    return to && negation_push(g, negation_not(g, to));
}

static bool negation_format(struct negation *g, const struct schema_value *m)
{
    if (!schema_format_pattern(m->text, m->len))
        return true;
    return negation_push(g, negation_typed(g, "string", " notFormat", schema_copy(g->s, m), m));
}

static bool negation_keyword(struct negation *g, const struct schema_value *v,
                             const struct schema_value *m)
{
    bool known, ok = negation_pair(g, v, m, &known);

    if (known)
        return ok;
    if (key_is(m, "type"))
        return negation_types(g, v, m);
    if (key_is(m, "nullable") || schema_keyword_kind(m->key, m->key_len) == KEYWORD_NOTE)
        return true;
    if (key_is(m, "enum"))
        return negation_values(g, m);
    if (key_is(m, "const"))
        return negation_const(g, m);
    if (key_is(m, "required"))
        return negation_required(g, m);
    if (key_is(m, "properties"))
        return negation_properties(g, m);
    if (key_is(m, "pattern"))
        return negation_push(g,
                             negation_typed(g, "string", " notPattern", schema_copy(g->s, m), m));
    if (key_is(m, "format"))
        return negation_format(g, m);
    if (key_is(m, "items"))
        return negation_items(g, v, m);
    if (key_is(m, "prefixItems"))
        return negation_prefix(g, m);
    if (key_is(m, "contains"))
        return negation_contains(g, v, m);
    if (key_is(m, "allOf"))
        return negation_all(g, m);
    if (key_is(m, "anyOf"))
        return negation_any(g, m);
    if (key_is(m, "not"))
        return negation_push(g, schema_make_alias(g->s, m));
    if (key_is(m, "$ref"))
        return negation_ref(g, v, m);
    if ((key_is(m, "additionalProperties") || key_is(m, "additionalItems")) &&
        schema_is_everything(m))
        return true;
    schema_fail(g->s, EINVAL, m,
                "the keyword '%.40s' is not supported inside of 'not', 'if' or "
                "'oneOf'",
                m->key);
    return false;
}

const struct schema_value *schema_negate(struct schema *s, const struct schema_value *v)
{
    struct negation g = {.s = s};
    struct schema_value *out;

    while (v->type == VALUE_ALIAS)
        v = v->alias;
    if (v->negation)
        return v->negation;
    if (v->type == VALUE_BOOL)
        out = schema_make_bool(s, !v->truth, v);
    else if (v->type != VALUE_OBJECT || !schema_keyword_check(s, v))
        return schema_fail(s, EINVAL, v, "must be a schema: an object, true or false"), NULL;
    else {
        g.ways = schema_make(s, VALUE_ARRAY, v);
        out = schema_make(s, VALUE_OBJECT, v);
        for (const struct schema_value *m = v->first; m; m = m->next)
            if (!negation_keyword(&g, v, m) || !schema_step(s, v, 1))
                return NULL;
        if (g.ways && g.ways->n == 0)
            out = schema_make_bool(s, false, v);
        else
            out = schema_add(s, out, "anyOf", 5, g.ways);
    }
    if (out)
        out->is_negation = true;
    ((struct schema_value *)v)->negation = out;
    return out;
}

/* -- what can be negated -- */

static bool can_negate(struct schema *s, const struct schema_value *v, unsigned *budget);

static bool can_negate_members(struct schema *s, const struct schema_value *v, unsigned *budget)
{
    for (v = v->first; v; v = v->next)
        if (!can_negate(s, v, budget))
            return false;
    return true;
}

static bool can_negate_keyword(struct schema *s, const struct schema_value *v,
                               const struct schema_value *m, unsigned *budget)
{
    static const char *const simple[] = {"type",     "nullable", "enum",  "const",
                                         "required", "pattern",  "format"};
    const struct schema_value *to;

    for (size_t i = 0; i < ARRAY_SIZE(simple); i++)
        if (key_is(m, simple[i]))
            return m->type != VALUE_OBJECT && schema_enum_is_scalar(m);
    for (size_t i = 0; i < ARRAY_SIZE(count_pairs); i++)
        if (key_is(m, count_pairs[i].name))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(bound_pairs); i++)
        if (key_is(m, bound_pairs[i].name))
            return true;
    if (schema_keyword_kind(m->key, m->key_len) == KEYWORD_NOTE)
        return true;
    if (key_is(m, "properties") || key_is(m, "allOf") || key_is(m, "anyOf") ||
        key_is(m, "prefixItems") || (key_is(m, "items") && m->type == VALUE_ARRAY))
        return can_negate_members(s, m, budget);
    if (key_is(m, "items"))
        return !schema_get(v, "prefixItems") && can_negate(s, m, budget);
    if (key_is(m, "contains"))
        return !schema_get(v, "minContains") && !schema_get(v, "maxContains") &&
               can_negate(s, m, budget);
    if (key_is(m, "not"))
        return true;
    if (key_is(m, "$ref"))
        return (to = schema_ref_resolve(s, v, m)) != NULL && can_negate(s, to, budget);
    return (key_is(m, "additionalProperties") || key_is(m, "additionalItems")) &&
           schema_is_everything(m);
}

static bool can_negate(struct schema *s, const struct schema_value *v, unsigned *budget)
{
    while (v->type == VALUE_ALIAS)
        v = v->alias;
    if (v->type == VALUE_BOOL)
        return true;
    if (v->type != VALUE_OBJECT || *budget == 0 || !schema_step(s, v, 1))
        return false;
    (*budget)--;
    for (const struct schema_value *m = v->first; m; m = m->next)
        if (!can_negate_keyword(s, v, m, budget))
            return false;
    return true;
}

bool schema_can_negate(struct schema *s, const struct schema_value *v)
{
    unsigned budget = 24; /* number of schemas; with more there are too many alternatives */

    return can_negate(s, v, &budget);
}
