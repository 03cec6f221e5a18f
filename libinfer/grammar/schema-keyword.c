/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keywords of JSON Schema, and the types of their values
 *
 * Keywords that are not listed are annotations and have no effect, as JSON Schema says.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

/* The type that the value of a keyword must have. */
enum shape {
    SHAPE_ANY,
    SHAPE_TYPE,
    SHAPE_VALUES,
    SHAPE_COUNT,
    SHAPE_NUMBER,
    SHAPE_LIMIT, /* a number, or in draft 4 a boolean */
    SHAPE_STRING,
    SHAPE_BOOL,
    SHAPE_NAMES,
    SHAPE_SCHEMA,
    SHAPE_SCHEMAS,       /* an array */
    SHAPE_SCHEMA_OBJECT, /* an object whose members are schemas */
    SHAPE_ITEMS,         /* a schema, or an array of them */
    SHAPE_OBJECT,
};

static const struct keyword {
    const char *name;
    enum keyword_kind kind;
    enum shape shape;
} keywords[] = {
    {"type", KEYWORD_ENFORCED, SHAPE_TYPE},
    {"enum", KEYWORD_ENFORCED, SHAPE_VALUES},
    {"const", KEYWORD_ENFORCED, SHAPE_ANY},
    {"nullable", KEYWORD_ENFORCED, SHAPE_BOOL},
    {"properties", KEYWORD_ENFORCED, SHAPE_SCHEMA_OBJECT},
    {"patternProperties", KEYWORD_ENFORCED, SHAPE_SCHEMA_OBJECT},
    {"additionalProperties", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"unevaluatedProperties", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"propertyNames", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"required", KEYWORD_ENFORCED, SHAPE_NAMES},
    {"minProperties", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"maxProperties", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"items", KEYWORD_ENFORCED, SHAPE_ITEMS},
    {"prefixItems", KEYWORD_ENFORCED, SHAPE_SCHEMAS},
    {"additionalItems", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"unevaluatedItems", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"minItems", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"maxItems", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"uniqueItems", KEYWORD_ENFORCED, SHAPE_BOOL},
    {"contains", KEYWORD_ENFORCED, SHAPE_SCHEMA},
    {"minContains", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"maxContains", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"minLength", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"maxLength", KEYWORD_ENFORCED, SHAPE_COUNT},
    {"pattern", KEYWORD_ENFORCED, SHAPE_STRING},
    {"format", KEYWORD_ENFORCED, SHAPE_STRING},
    {"minimum", KEYWORD_ENFORCED, SHAPE_NUMBER},
    {"maximum", KEYWORD_ENFORCED, SHAPE_NUMBER},
    {"exclusiveMinimum", KEYWORD_ENFORCED, SHAPE_LIMIT},
    {"exclusiveMaximum", KEYWORD_ENFORCED, SHAPE_LIMIT},
    {"multipleOf", KEYWORD_ENFORCED, SHAPE_NUMBER},
    {" excluded", KEYWORD_ENFORCED, SHAPE_ANY},
    {" notPattern", KEYWORD_ENFORCED, SHAPE_ANY},
    {" notFormat", KEYWORD_ENFORCED, SHAPE_ANY},
    {"$ref", KEYWORD_APPLY, SHAPE_STRING},
    {"$dynamicRef", KEYWORD_APPLY, SHAPE_STRING},
    {"$recursiveRef", KEYWORD_APPLY, SHAPE_STRING},
    {"allOf", KEYWORD_APPLY, SHAPE_SCHEMAS},
    {"anyOf", KEYWORD_APPLY, SHAPE_SCHEMAS},
    {"oneOf", KEYWORD_APPLY, SHAPE_SCHEMAS},
    {"not", KEYWORD_APPLY, SHAPE_SCHEMA},
    {"if", KEYWORD_APPLY, SHAPE_SCHEMA},
    {"then", KEYWORD_APPLY, SHAPE_SCHEMA},
    {"else", KEYWORD_APPLY, SHAPE_SCHEMA},
    {"dependencies", KEYWORD_APPLY, SHAPE_OBJECT},
    {"dependentRequired", KEYWORD_APPLY, SHAPE_OBJECT},
    {"dependentSchemas", KEYWORD_APPLY, SHAPE_SCHEMA_OBJECT},
};

static const struct keyword *keyword_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
        if (strlen(keywords[i].name) == len && memcmp(keywords[i].name, name, len) == 0)
            return &keywords[i];
    return NULL;
}

enum keyword_kind schema_keyword_kind(const char *name, size_t len)
{
    const struct keyword *k = keyword_find(name, len);

    return k ? k->kind : KEYWORD_NOTE;
}

/* -- types -- */

static const struct {
    const char *name;
    unsigned types;
} types[] = {
    {"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN},    {"integer", TYPE_INTEGER},
    {"number", TYPE_NUMBER}, {"string", TYPE_STRING},      {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT}, {" fraction", TYPE_FRACTION},
};

static unsigned keyword_type(const struct schema_value *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (schema_is(name, types[i].name))
            return types[i].types;
    return 0;
}

unsigned schema_types(const struct schema_value *v)
{
    const struct schema_value *type = schema_get(v, "type"), *nullable = schema_get(v, "nullable");
    unsigned all = 0;

    if (!type)
        return TYPE_ANY;
    if (nullable && nullable->truth)
        all |= TYPE_NULL;
    if (type->type == VALUE_STRING)
        return all | keyword_type(type);
    for (type = type->first; type; type = type->next)
        all |= keyword_type(type);
    return all;
}

/* -- shapes -- */

static bool shape_is_type(const struct schema_value *v)
{
    if (v->type == VALUE_STRING)
        return keyword_type(v) != 0;
    if (v->type != VALUE_ARRAY)
        return false;
    for (v = v->first; v; v = v->next)
        if (v->type != VALUE_STRING || keyword_type(v) == 0)
            return false;
    return true;
}

static bool shape_is_names(const struct schema_value *v)
{
    if (v->type != VALUE_ARRAY)
        return false;
    for (v = v->first; v; v = v->next)
        if (v->type != VALUE_STRING)
            return false;
    return true;
}

static bool shape_is_schema(const struct schema_value *v)
{
    return v->type == VALUE_OBJECT || v->type == VALUE_BOOL || v->type == VALUE_ALIAS;
}

static bool shape_is_schemas(const struct schema_value *v)
{
    for (v = v->first; v; v = v->next)
        if (!shape_is_schema(v))
            return false;
    return true;
}

/* Returns NULL, or what the value must be. */
static const char *shape_problem(enum shape shape, const struct schema_value *v)
{
    uint32_t n;

    switch (shape) {
    case SHAPE_TYPE:
        return shape_is_type(v) ? NULL : "must be the name of a type or an array of them";
    case SHAPE_VALUES:
        return v->type == VALUE_ARRAY ? NULL : "must be an array";
    case SHAPE_COUNT:
        return schema_count(v, &n) ? NULL : "must be an integer that is not negative";
    case SHAPE_NUMBER:
        return v->type == VALUE_NUMBER ? NULL : "must be a number";
    case SHAPE_LIMIT:
        return v->type == VALUE_NUMBER || v->type == VALUE_BOOL ? NULL : "must be a number";
    case SHAPE_STRING:
        return v->type == VALUE_STRING ? NULL : "must be a string";
    case SHAPE_BOOL:
        return v->type == VALUE_BOOL ? NULL : "must be true or false";
    case SHAPE_NAMES:
        return shape_is_names(v) ? NULL : "must be an array of strings";
    case SHAPE_SCHEMA:
        return shape_is_schema(v) ? NULL : "must be a schema: an object, true or false";
    case SHAPE_SCHEMAS:
        return v->type == VALUE_ARRAY && v->n > 0 && shape_is_schemas(v)
                   ? NULL
                   : "must be an array of schemas";
    case SHAPE_SCHEMA_OBJECT:
        return v->type == VALUE_OBJECT && shape_is_schemas(v) ? NULL
                                                              : "must be an object of schemas";
    case SHAPE_ITEMS:
        return shape_is_schema(v) || (v->type == VALUE_ARRAY && shape_is_schemas(v))
                   ? NULL
                   : "must be a schema or an array of schemas";
    case SHAPE_OBJECT:
        return v->type == VALUE_OBJECT ? NULL : "must be an object";
    default:
        return NULL;
    }
}

bool schema_keyword_check(struct schema *s, const struct schema_value *v)
{
    if (v->checked || !schema_step(s, v, v->n))
        return s->r == 0;
    for (const struct schema_value *m = v->first; m; m = m->next) {
        const struct keyword *k = keyword_find(m->key, m->key_len);
        const char *problem = k ? shape_problem(k->shape, m) : NULL;

        if (!k)
            continue;
        if (problem) {
            schema_fail(s, EINVAL, m, "%s", problem);
            return false;
        }
        ((struct schema_value *)v)->asserts |= k->kind == KEYWORD_ENFORCED;
    }
    ((struct schema_value *)v)->checked = true;
    return true;
}
