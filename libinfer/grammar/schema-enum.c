/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enum and const
 *
 * Scalar values are compared with each other here. Values that are arrays or objects have become
 * choices between schemas (schema-rewrite.c), and are not looked at.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

static bool enum_is_scalar(const struct schema_value *v)
{
    return v->type != VALUE_ARRAY && v->type != VALUE_OBJECT;
}

bool schema_enum_is_scalar(const struct schema_value *v)
{
    for (v = v->first; v; v = v->next)
        if (!enum_is_scalar(v))
            return false;
    return true;
}

static bool enum_is_null_too(const struct schema_value *v)
{
    const struct schema_value *nullable = schema_get(v, "nullable");

    return nullable && nullable->truth;
}

/* Returns whether the enum or const @list of a schema has the value. */
static bool enum_has(struct schema *s, const struct schema_value *list, bool is_const,
                     const struct schema_value *v)
{
    if (is_const)
        return schema_equal(list, v);
    if (!schema_step(s, list, list->n / 4))
        return false;
    for (list = list->first; list; list = list->next)
        if (schema_equal(list, v))
            return true;
    return false;
}

struct filter {
    struct schema *s;
    struct schema_values values;
    bool has;
};

/* Copies the values of the first enum. */
static bool filter_start(struct filter *f, const struct schema_value *list, bool is_const,
                         bool null)
{
    const uint32_t n = is_const ? 1 : list->n;
    const struct schema_value **v = arena_alloc(&f->s->arena, (n + (size_t)1) * sizeof(*v));

    if (!v) {
        schema_fail(f->s, ENOMEM, list, "out of memory");
        return false;
    }
    f->has = true;
    f->values.v = v;
    f->values.n = 0;
    if (is_const)
        v[f->values.n++] = list;
    else
        for (const struct schema_value *m = list->first; m; m = m->next)
            v[f->values.n++] = m;
    if (null)
        v[f->values.n++] = f->s->null;
    return true;
}

static bool filter_apply(struct filter *f, const struct schema_value *list, bool is_const,
                         bool null)
{
    uint32_t n = 0;

    if ((is_const && !enum_is_scalar(list)) || (!is_const && !schema_enum_is_scalar(list)))
        return true;
    if (!f->has)
        return filter_start(f, list, is_const, null);
    for (uint32_t i = 0; i < f->values.n; i++) {
        const struct schema_value *v = f->values.v[i];

        if ((null && v->type == VALUE_NULL) || enum_has(f->s, list, is_const, v))
            f->values.v[n++] = v;
    }
    f->values.n = n;
    return f->s->r == 0;
}

bool schema_enum_values(struct schema *s, const struct facts *f, struct schema_values *ret_values,
                        bool *ret_has)
{
    struct filter filter = {.s = s};

    for (uint32_t i = 0; i < f->n; i++) {
        const struct schema_value *v = f->v[i].v;
        const struct schema_value *list = schema_get(v, "enum"), *one = schema_get(v, "const");

        if (f->v[i].only_ref)
            continue;
        if (list && !filter_apply(&filter, list, false, enum_is_null_too(v)))
            return false;
        if (one && !filter_apply(&filter, one, true, enum_is_null_too(v)))
            return false;
    }
    *ret_values = filter.values;
    *ret_has = filter.has;
    return true;
}

unsigned schema_value_type(const struct schema_value *v)
{
    struct decimal d;

    switch (v->type) {
    case VALUE_NULL:
        return TYPE_NULL;
    case VALUE_BOOL:
        return TYPE_BOOLEAN;
    case VALUE_NUMBER:
        return !decimal_read(v, &d) ? TYPE_NUMBER : d.n_frac ? TYPE_FRACTION : TYPE_INTEGER;
    case VALUE_STRING:
        return TYPE_STRING;
    case VALUE_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}
