/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns keywords that offer alternatives into choices
 *
 * A choice is a list of schemas, of which one must apply. Each schema of the list is a *way*. The
 * keywords have these ways:
 *
 * - anyOf: its schemas.
 * - oneOf: its schemas. If another schema of oneOf could apply at the same time, each way excludes
 *   that schema by `not`, provided that this can be expressed and stays small.
 * - not: one way, the negated schema.
 * - if, then and else: values that match both `if` and `then`, and values that match `else` but
 *   not `if`.
 * - dependentRequired, dependentSchemas and dependencies: an object without the property, and an
 *   object with everything that the property demands.
 * - enum and const with arrays or objects: one way for each array or object, and one way for all
 *   other values of the enum together.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

/* Makes a schema with one keyword. */
static struct schema_value *rewrite_with(struct schema *s, const char *key,
                                         struct schema_value *value,
                                         const struct schema_value *origin)
{
    return schema_add(s, schema_make(s, VALUE_OBJECT, origin), key, strlen(key), value);
}

static struct schema_value *rewrite_list(struct schema *s, const struct schema_value *origin)
{
    return schema_make(s, VALUE_ARRAY, origin);
}

static bool rewrite_push(struct schema *s, struct schema_value *list, struct schema_value *v)
{
    return schema_add(s, list, NULL, 0, v) != NULL;
}

/* Makes {"allOf": [@a, @b]}. */
static struct schema_value *rewrite_both(struct schema *s, struct schema_value *a,
                                         struct schema_value *b, const struct schema_value *origin)
{
    struct schema_value *list = rewrite_list(s, origin);

    if (!rewrite_push(s, list, a) || (b && !rewrite_push(s, list, b)))
        return NULL;
    return rewrite_with(s, "allOf", list, origin);
}

/* -- constants -- */

static struct schema_value *constant_array(struct schema *s, const struct schema_value *v)
{
    struct schema_value *list = rewrite_list(s, v),
                        *out = rewrite_with(s, "type",
                                            schema_make_text(s, VALUE_STRING, "array", 5, v), v);

    for (const struct schema_value *m = v->first; m; m = m->next)
        if (!rewrite_push(s, list, (struct schema_value *)schema_constant(s, m)))
            return NULL;
    if (v->n > 0)
        schema_add(s, out, "prefixItems", 11, list);
    schema_add(s, out, "minItems", 8, schema_make_count(s, v->n, v));
    return schema_add(s, out, "maxItems", 8, schema_make_count(s, v->n, v));
}

static struct schema_value *constant_object(struct schema *s, const struct schema_value *v)
{
    struct schema_value *properties = schema_make(s, VALUE_OBJECT, v);
    struct schema_value *required = rewrite_list(s, v),
                        *out = rewrite_with(s, "type",
                                            schema_make_text(s, VALUE_STRING, "object", 6, v), v);

    for (const struct schema_value *m = v->first; m; m = m->next) {
        struct schema_value *value = (struct schema_value *)schema_constant(s, m);

        if (!schema_add(s, properties, m->key, m->key_len, value) ||
            !rewrite_push(s, required, schema_make_text(s, VALUE_STRING, m->key, m->key_len, m)))
            return NULL;
    }
    schema_add(s, out, "properties", 10, properties);
    schema_add(s, out, "required", 8, required);
    return schema_add(s, out, "additionalProperties", 20, schema_make_bool(s, false, v));
}

const struct schema_value *schema_constant(struct schema *s, const struct schema_value *v)
{
    struct schema_value *list;

    if (v->type == VALUE_ARRAY)
        return constant_array(s, v);
    if (v->type == VALUE_OBJECT)
        return constant_object(s, v);
    list = rewrite_list(s, v);
    return rewrite_push(s, list, schema_copy(s, v)) ? rewrite_with(s, "enum", list, v) : NULL;
}

static bool choices_enum(struct schema *s, struct schema_value *choices,
                         const struct schema_value *list)
{
    struct schema_value *ways = rewrite_list(s, list), *scalars = rewrite_list(s, list);

    for (const struct schema_value *m = list->first; m; m = m->next) {
        const bool nested = m->type == VALUE_ARRAY || m->type == VALUE_OBJECT;
        struct schema_value *way =
            nested ? (struct schema_value *)schema_constant(s, m) : schema_copy(s, m);

        if (!rewrite_push(s, nested ? ways : scalars, way))
            return false;
    }
    if (scalars->n > 0 && !rewrite_push(s, ways, rewrite_with(s, "enum", scalars, list)))
        return false;
    return rewrite_push(s, choices, ways);
}

static bool choices_const(struct schema *s, struct schema_value *choices,
                          const struct schema_value *v)
{
    struct schema_value *ways = rewrite_list(s, v);

    return rewrite_push(s, ways, (struct schema_value *)schema_constant(s, v)) &&
           rewrite_push(s, choices, ways);
}

/* -- anyOf, oneOf -- */

static bool choices_any(struct schema *s, struct schema_value *choices,
                        const struct schema_value *list)
{
    struct schema_value *ways = rewrite_list(s, list);

    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!rewrite_push(s, ways, schema_make_alias(s, m)))
            return false;
    return rewrite_push(s, choices, ways);
}

/* A limit for each way of oneOf. The way gets the negations of the other schemas. Each negation is
 * a list of alternatives, and their numbers multiply. The first negation with which the product
 * would be above this limit is left out, and so are the negations after it. */
enum { ONE_OF_WAYS = 24 };

static const struct schema_value *one_of_target(struct schema *s, const struct schema_value *v)
{
    for (int i = 0; i < 8; i++) {
        const struct schema_value *ref = schema_get(v, "$ref"), *to;

        to = ref && ref->type == VALUE_STRING ? schema_ref_resolve(s, v, ref) : NULL;
        if (!to)
            break;
        v = to;
    }
    return v;
}

/* Returns whether all keywords of a schema are about objects. Such a schema permits every value
 * that is not an object. */
static bool one_of_is_open(struct schema *s, const struct schema_value *v)
{
    static const char *const names[] = {"properties",   "patternProperties", "additionalProperties",
                                        "required",     "minProperties",     "maxProperties",
                                        "propertyNames"};

    v = one_of_target(s, v);
    for (const struct schema_value *m = v->first; m; m = m->next) {
        bool known = schema_keyword_kind(m->key, m->key_len) == KEYWORD_NOTE;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            known = known || strcmp(m->key, names[i]) == 0;
        if (!known)
            return false;
    }
    return v->type == VALUE_OBJECT;
}

/* Adds to the list @all a schema that excludes the values that @other permits. A value must satisfy
 * all schemas of this list. */
static bool one_of_exclude(struct schema *s, struct schema_value *all,
                           const struct schema_value *other, unsigned *ways)
{
    const struct schema_value *negated;

    if (schema_can_negate(s, other)) {
        negated = schema_negate(s, other);
        if (!negated)
            return false;
        *ways *= MAX(negated->first ? negated->first->n : 1, 1u);
        if (*ways <= ONE_OF_WAYS)
            return rewrite_push(s, all, schema_make_alias(s, negated));
    }
    if (!one_of_is_open(s, other))
        return s->r == 0;
    return rewrite_push(
        s, all,
        rewrite_with(s, "type", schema_make_text(s, VALUE_STRING, "object", 6, other), other));
}

/* Makes a schema that permits the values of @m, except those that the other schemas of the oneOf
 * @list permit. */
static struct schema_value *one_of_way(struct schema *s, const struct schema_value *list,
                                       const struct schema_value *m)
{
    struct schema_value *all = rewrite_list(s, m);
    unsigned ways = 1;

    if (!rewrite_push(s, all, schema_make_alias(s, m)))
        return NULL;
    for (const struct schema_value *other = list->first; other && ways <= ONE_OF_WAYS;
         other = other->next)
        if (other != m && !schema_disjoint(s, m, other) && !one_of_exclude(s, all, other, &ways))
            return NULL;
    return rewrite_with(s, "allOf", all, m);
}

static bool choices_one(struct schema *s, struct schema_value *choices,
                        const struct schema_value *list)
{
    struct schema_value *ways = rewrite_list(s, list);

    for (const struct schema_value *m = list->first; m; m = m->next)
        if (!rewrite_push(s, ways, one_of_way(s, list, m)))
            return false;
    return rewrite_push(s, choices, ways);
}

/* -- conditions -- */

static bool choices_if(struct schema *s, struct schema_value *choices, const struct schema_value *v,
                       const struct schema_value *condition)
{
    const struct schema_value *then = schema_get(v, "then"), *otherwise = schema_get(v, "else");
    struct schema_value *ways = rewrite_list(s, condition), *no;

    if (!then && !otherwise)
        return true;
    no = rewrite_with(s, "not", schema_make_alias(s, condition), condition);
    return rewrite_push(s, ways,
                        rewrite_both(s, schema_make_alias(s, condition),
                                     then ? schema_make_alias(s, then) : NULL, condition)) &&
           rewrite_push(s, ways,
                        rewrite_both(s, no, otherwise ? schema_make_alias(s, otherwise) : NULL,
                                     condition)) &&
           rewrite_push(s, choices, ways);
}

/* Makes {"properties": {NAME: false}}. */
static struct schema_value *rewrite_absent(struct schema *s, const char *name, size_t len,
                                           const struct schema_value *at)
{
    struct schema_value *properties = schema_make(s, VALUE_OBJECT, at);

    return rewrite_with(s, "properties",
                        schema_add(s, properties, name, len, schema_make_bool(s, false, at)), at);
}

static struct schema_value *rewrite_required(struct schema *s, const char *name, size_t len,
                                             const struct schema_value *more,
                                             const struct schema_value *at)
{
    struct schema_value *names = rewrite_list(s, at);

    if (!rewrite_push(s, names, schema_make_text(s, VALUE_STRING, name, len, at)))
        return NULL;
    for (more = more ? more->first : NULL; more; more = more->next)
        if (!rewrite_push(s, names, schema_copy(s, more)))
            return NULL;
    return rewrite_with(s, "required", names, at);
}

/* Adds the demands of property @m->key, which are an array of names or a schema. */
static bool choices_dependency(struct schema *s, struct schema_value *choices,
                               const struct schema_value *m)
{
    struct schema_value *ways = rewrite_list(s, m), *with;

    if (m->type == VALUE_ARRAY) {
        for (const struct schema_value *name = m->first; name; name = name->next) {
            if (name->type != VALUE_STRING) {
                schema_fail(s, EINVAL, name, "must be the name of a property");
                return false;
            }
        }
        with = rewrite_required(s, m->key, m->key_len, m, m);
    } else {
        with = rewrite_both(s, rewrite_required(s, m->key, m->key_len, NULL, m),
                            schema_make_alias(s, m), m);
    }
    return rewrite_push(s, ways, rewrite_absent(s, m->key, m->key_len, m)) &&
           rewrite_push(s, ways, with) && rewrite_push(s, choices, ways);
}

static bool choices_dependencies(struct schema *s, struct schema_value *choices,
                                 const struct schema_value *v)
{
    static const char *const names[] = {"dependencies", "dependentRequired", "dependentSchemas"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct schema_value *m = schema_get(v, names[i]);

        for (m = m ? m->first : NULL; m; m = m->next)
            if (!choices_dependency(s, choices, m))
                return false;
    }
    return true;
}

static bool choices_not(struct schema *s, struct schema_value *choices,
                        const struct schema_value *v)
{
    struct schema_value *ways;
    const struct schema_value *negated;

    if (s->loose && !schema_can_negate(s, v))
        return true;
    ways = rewrite_list(s, v);
    negated = schema_negate(s, v);
    return negated && rewrite_push(s, ways, schema_make_alias(s, negated)) &&
           rewrite_push(s, choices, ways);
}

static bool choices_collect(struct schema *s, struct schema_value *choices,
                            const struct schema_value *v)
{
    const struct schema_value *m;

    if ((m = schema_get(v, "enum")) != NULL && !schema_enum_is_scalar(m) &&
        !choices_enum(s, choices, m))
        return false;
    if ((m = schema_get(v, "const")) != NULL &&
        (m->type == VALUE_ARRAY || m->type == VALUE_OBJECT) && !choices_const(s, choices, m))
        return false;
    if ((m = schema_get(v, "anyOf")) != NULL && !choices_any(s, choices, m))
        return false;
    if ((m = schema_get(v, "oneOf")) != NULL && !choices_one(s, choices, m))
        return false;
    if ((m = schema_get(v, "not")) != NULL && !choices_not(s, choices, m))
        return false;
    if ((m = schema_get(v, "if")) != NULL && !(s->loose && !schema_can_negate(s, m)) &&
        !choices_if(s, choices, v, m))
        return false;
    return choices_dependencies(s, choices, v);
}

static bool choices_are_needed(const struct schema_value *v)
{
    for (const struct schema_value *m = v->first; m; m = m->next)
        if (schema_keyword_kind(m->key, m->key_len) == KEYWORD_APPLY || m->type == VALUE_ARRAY ||
            m->type == VALUE_OBJECT)
            return true;
    return false;
}

const struct schema_value *schema_choices(struct schema *s, const struct schema_value *v)
{
    struct schema_value *choices;

    if (v->choices)
        return v->choices;
    if (!choices_are_needed(v))
        return s->no_choices;
    choices = rewrite_list(s, v);
    if (!choices || !choices_collect(s, choices, v) || s->r < 0)
        return NULL;
    ((struct schema_value *)v)->choices = choices;
    return choices;
}
