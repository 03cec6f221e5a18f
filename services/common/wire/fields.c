/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads typed fields of JSON objects (see fields.h). A boolean is not a number, and 1.0 is an
 * integer, because JSON does not distinguish 1.0 from 1.
 */
#include "common/wire/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"

int fields_parse(const char *body, size_t len, json_t **ret_object, struct problem *problem)
{
    _cleanup_json_ json_t *json = NULL;
    struct inf_err err = {};
    const int r = json_parse(body, len, &json, &err);

    if (r == -ENOMEM)
        return problem_no_memory(problem);
    if (r == -E2BIG)
        return problem_set(problem, 400, "too_many_values", NULL,
                           "The body of your request has too many values: %s.", err.text);
    if (r < 0)
        return problem_set(problem, 400, "invalid_json", NULL,
                           "The body of your request is not valid JSON: %s.", err.text);
    if (!json_is_object(json))
        return problem_set(problem, 400, "invalid_type", NULL,
                           "The body of your request must be a JSON object.");
    *ret_object = STEAL(json);
    return 0;
}

json_t *field_find(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

static const char *field_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

int field_wrong_type(const char *param, const char *expected, const json_t *value,
                     struct problem *problem)
{
    return problem_set(problem, 400, "invalid_type", param,
                       "Invalid type for '%s': expected %s, but got %s instead.", param, expected,
                       field_type_name(value));
}

int field_bool(json_t *object, const char *name, bool *value, struct problem *problem)
{
    const json_t *field = field_find(object, name);

    if (!field)
        return 0;
    if (!json_is_boolean(field))
        return field_wrong_type(name, "a boolean", field, problem);
    *value = json_is_true(field);
    return 1;
}

int field_double(json_t *object, const char *name, double min, double max, double *value,
                 struct problem *problem)
{
    const json_t *field = field_find(object, name);
    double v;

    if (!field)
        return 0;
    if (!json_is_number(field))
        return field_wrong_type(name, "a number", field, problem);
    v = json_number_value(field);
    if (!(v >= min && v <= max))
        return problem_set(problem, 400, "invalid_value", name,
                           "Invalid value for '%s': %g is not within %g and %g.", name, v, min,
                           max);
    *value = v;
    return 1;
}

int field_int(json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
              struct problem *problem)
{
    const json_t *field = field_find(object, name);
    int64_t v;

    if (!field)
        return 0;
    if (json_is_integer(field)) {
        v = json_integer_value(field);
    } else if (json_is_real(field) && fabs(json_real_value(field)) < 9e15 &&
               json_real_value(field) == floor(json_real_value(field))) {
        v = (int64_t)json_real_value(field);
    } else {
        return field_wrong_type(name, "an integer", field, problem);
    }
    if (v < min || v > max)
        return problem_set(problem, 400, "invalid_value", name,
                           "Invalid value for '%s': %" PRId64 " is not within %" PRId64
                           " and %" PRId64 ".",
                           name, v, min, max);
    *value = v;
    return 1;
}

int field_string(json_t *object, const char *name, const char **value, size_t *len,
                 struct problem *problem)
{
    const json_t *field = field_find(object, name);

    if (!field)
        return 0;
    if (!json_is_string(field))
        return field_wrong_type(name, "a string", field, problem);
    *value = json_string_value(field);
    *len = json_string_length(field);
    return 1;
}

int field_text(json_t *object, const char *name, const char **value, struct problem *problem)
{
    const char *text = NULL;
    size_t len;
    const int r = field_string(object, name, &text, &len, problem);

    if (r <= 0)
        return r;
    if (strlen(text) != len)
        return problem_set(problem, 400, "invalid_value", name,
                           "Invalid value for '%s': it has a NUL character.", name);
    *value = text;
    return 1;
}

bool field_is(const json_t *value, const char *text)
{
    const size_t len = strlen(text);

    return json_is_string(value) && json_string_length(value) == len &&
           memcmp(json_string_value(value), text, len) == 0;
}

int field_check_array(const json_t *value, const char *param, const char *expected, int max,
                      struct problem *problem)
{
    if (!json_is_array(value))
        return field_wrong_type(param, expected, value, problem);
    if (json_array_size(value) > (size_t)max)
        return problem_set(problem, 400, "invalid_value", param, "'%s' has more than %d entries.",
                           param, max);
    return 0;
}

static bool field_is_listed(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int fields_known_in(json_t *object, const char *prefix, const char *const *const *lists,
                    struct problem *problem)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        const char *const *const *list = lists;
        char param[128];

        while (*list && !field_is_listed(key, *list))
            list++;
        if (*list)
            continue;
        snprintf(param, sizeof(param), "%s%s", prefix, key);
        return problem_set(problem, 400, "unknown_field", param,
                           "Unrecognized request argument supplied: %s.", param);
    }
    return 0;
}

int fields_known(json_t *object, const char *prefix, const char *const *names,
                 struct problem *problem)
{
    const char *const *const lists[] = {names, NULL};

    return fields_known_in(object, prefix, lists, problem);
}
