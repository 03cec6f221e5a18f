/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores, in the schemas of answers, the bounds that Anthropic's clients move into descriptions.
 *
 * Anthropic's API does not take bounds of numbers, strings and arrays. So its clients remove them
 * from a schema, and write them as the last paragraph of its description, for example
 * {minimum: 1, maximum: 7} (`transform_schema` of the Python package anthropic 2.14,
 * `transformJSONSchema` of the npm package @anthropic-ai/sdk 1.14). The clients check the answer
 * against the original schema.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "common/wire/json.h"
#include "core/text.h"

/* Returns the last paragraph of a description if bounds may be there; else NULL. */
static const char *bounds_find(const json_t *description)
{
    const char *text = json_string_value(description);
    const char *last = text;

    if (!text || !text_ends_with(text, "}"))
        return NULL;
    for (const char *next = text; (next = strstr(next, "\n\n")) != NULL; next += 2)
        last = next + 2;
    return *last == '{' ? last : NULL;
}

/* Returns the value after "NAME:" in a paragraph. NULL: there is no such value, or it is neither a
 * number nor `true`. */
static json_t *bounds_value(const char *paragraph, const char *name)
{
    char key[32];
    const char *found;
    size_t n;

    snprintf(key, sizeof(key), "%s: ", name);
    for (found = paragraph; (found = strstr(found, key)) != NULL; found++)
        if (found[-1] == '{' || (found - paragraph > 2 && memcmp(found - 2, ", ", 2) == 0))
            break;
    if (!found)
        return NULL;
    found += strlen(key);
    n = strcspn(found, ",}");
    /* Anthropic's Python client writes "True", and its TypeScript client writes "true". */
    if (n == 4 && (memcmp(found, "True", 4) == 0 || memcmp(found, "true", 4) == 0))
        return json_true();
    return memchr("-0123456789", found[0], 11) ? json_loadb(found, n, JSON_DECODE_ANY, NULL) : NULL;
}

static int bounds_take(json_t *schema, const char *paragraph)
{
    static const char *const names[] = {
        "minimum",   "maximum",   "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "minItems",         "maxItems",         "uniqueItems",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *value =
            json_object_get(schema, names[i]) ? NULL : bounds_value(paragraph, names[i]);

        if (value && json_object_set_new(schema, names[i], value) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int bounds_restore_all(json_t *schemas)
{
    const char *name;
    json_t *schema;
    size_t i;
    int r = 0;

    json_object_foreach(schemas, name, schema) r = r < 0 ? r : anthropic_bounds_restore(schema);
    json_array_foreach(schemas, i, schema) r = r < 0 ? r : anthropic_bounds_restore(schema);
    return r;
}

int anthropic_bounds_restore(json_t *schema)
{
    static const char *const lists[] = {"$defs", "properties", "anyOf", "allOf"};
    const char *paragraph = bounds_find(json_object_get(schema, "description"));
    json_t *items = json_object_get(schema, "items");
    int r = paragraph ? bounds_take(schema, paragraph) : 0;

    for (size_t i = 0; i < ARRAY_SIZE(lists) && r == 0; i++)
        r = bounds_restore_all(json_object_get(schema, lists[i]));
    return r < 0 || !json_is_object(items) ? r : anthropic_bounds_restore(items);
}
