/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the texts of a request. */
#include "embed/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/fields.h"

void inputs_done(struct inputs *inputs)
{
    free(inputs->items);
    *inputs = (struct inputs){};
}

void inputs_name(const struct inputs *inputs, size_t i, char ret_name[INPUTS_NAME])
{
    if (inputs->is_list)
        snprintf(ret_name, INPUTS_NAME, "%.100s[%zu]", inputs->param, i);
    else
        snprintf(ret_name, INPUTS_NAME, "%.100s", inputs->param);
}

static int input_empty(const char *param, struct problem *problem)
{
    return problem_set(problem, 400, "empty_input", param, "'%s' is empty.", param);
}

static int input_missing(const char *param, struct problem *problem)
{
    return problem_set(problem, 400, "missing_field", param, "Missing required parameter: '%s'.",
                       param);
}

/* Allocates memory for @more items; refuses more than @max. */
static int inputs_reserve(struct inputs *inputs, size_t more, size_t max, const char *param,
                          struct problem *problem)
{
    struct input *items;

    if (more > max)
        return problem_set(problem, 400, "too_many_inputs", param,
                           "'%s' has %zu texts; %zu are allowed in one request.", param, more, max);
    items = realloc(inputs->items, (inputs->n + more) * sizeof(*items));
    if (!items)
        return problem_no_memory(problem);
    inputs->items = items;
    inputs->param = param;
    return 0;
}

int inputs_check_text(const char *at, size_t len, struct problem *problem)
{
    if (len <= INPUTS_MAX_TEXT)
        return 0;
    return problem_set(problem, 400, "value_too_long", at,
                       "Invalid value for '%s': the text is longer than %zu bytes.", at,
                       INPUTS_MAX_TEXT);
}

static int add_text(struct inputs *inputs, const json_t *text, const char *at,
                    struct problem *problem)
{
    const struct input input = {.text = json_string_value(text), .len = json_string_length(text)};

    if (inputs_check_text(at, input.len, problem) < 0)
        return -EINVAL;
    inputs->items[inputs->n++] = input;
    return 0;
}

/* The ids are checked later against the vocabulary of the model. */
static int add_tokens(struct inputs *inputs, const json_t *tokens, const char *param,
                      struct problem *problem)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);

        if (!json_is_integer(token))
            return field_wrong_type(param, "token ids", token, problem);
    }
    inputs->items[inputs->n++] = (struct input){.tokens = tokens};
    return 0;
}

/* Sets *ret_text to the string of an object whose only field is "text", and to @item otherwise. */
static int open_object(json_t *item, const char *at, json_t **ret_text, struct problem *problem)
{
    static const char *const names[] = {"text", NULL};
    char prefix[INPUTS_NAME + 1];

    *ret_text = item;
    if (!json_is_object(item) || !json_is_string(json_object_get(item, "text")))
        return 0;
    *ret_text = json_object_get(item, "text");
    snprintf(prefix, sizeof(prefix), "%.*s.", INPUTS_NAME - 1, at);
    return fields_known(item, prefix, names, problem);
}

static int read_item(struct inputs *inputs, json_t *item, size_t i, struct problem *problem)
{
    char at[INPUTS_NAME];

    inputs_name(inputs, i, at);
    if (open_object(item, at, &item, problem) < 0)
        return -EINVAL;
    if (json_is_string(item)) {
        if (!json_string_length(item))
            return input_empty(at, problem);
        return add_text(inputs, item, at, problem);
    }
    if (!json_is_array(item))
        return field_wrong_type(at, "a string or an array of token ids", item, problem);
    return json_array_size(item) ? add_tokens(inputs, item, at, problem) : input_empty(at, problem);
}

int inputs_read(struct inputs *inputs, json_t *value, const char *param, size_t max,
                struct problem *problem)
{
    size_t n = json_array_size(value);
    int r;

    if (!value || json_is_null(value))
        return input_missing(param, problem);
    if (!json_is_string(value) && !json_is_array(value))
        return field_wrong_type(param, "a string or an array", value, problem);
    if (json_is_string(value) ? !json_string_length(value) : !n)
        return input_empty(param, problem);
    if (json_is_string(value) || json_is_number(json_array_get(value, 0)))
        n = 1;
    r = inputs_reserve(inputs, n, max, param, problem);
    if (r < 0)
        return r;
    inputs->is_list = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    if (json_is_string(value))
        r = add_text(inputs, value, param, problem);
    else if (json_is_number(json_array_get(value, 0)))
        r = add_tokens(inputs, value, param, problem);
    else
        for (size_t i = 0; i < n && r == 0; i++)
            r = read_item(inputs, json_array_get(value, i), i, problem);
    return r;
}

int inputs_read_texts(struct inputs *inputs, json_t *value, const char *param, size_t max,
                      bool may_be_empty, struct problem *problem)
{
    const size_t n = json_is_string(value) ? 1 : json_array_size(value);
    int r;

    if (!value || json_is_null(value))
        return input_missing(param, problem);
    if (!json_is_string(value) && !json_is_array(value))
        return field_wrong_type(param, "a string or an array of strings", value, problem);
    if (!n)
        return input_empty(param, problem);
    r = inputs_reserve(inputs, n, max, param, problem);
    inputs->is_list = json_is_array(value);
    for (size_t i = 0; i < n && r == 0; i++) {
        const json_t *item = json_is_string(value) ? value : json_array_get(value, i);
        char at[INPUTS_NAME];

        inputs_name(inputs, i, at);
        if (!json_is_string(item))
            r = field_wrong_type(at, "a string", item, problem);
        else if (!json_string_length(item) && !may_be_empty)
            r = input_empty(at, problem);
        else
            r = add_text(inputs, item, at, problem);
    }
    return r;
}

int inputs_read_documents(struct inputs *inputs, json_t *value, const char *param, size_t max,
                          struct problem *problem)
{
    const size_t n = json_array_size(value);
    int r;

    if (!value || json_is_null(value))
        return input_missing(param, problem);
    if (!json_is_array(value))
        return field_wrong_type(param, "an array", value, problem);
    if (!n)
        return input_empty(param, problem);
    r = inputs_reserve(inputs, n, max, param, problem);
    inputs->is_list = true;
    for (size_t i = 0; i < n && r == 0; i++) {
        json_t *text, *item = json_array_get(value, i);
        char at[INPUTS_NAME];

        inputs_name(inputs, i, at);
        r = open_object(item, at, &text, problem);
        if (r == 0 && !json_is_string(text))
            return field_wrong_type(at, "a string or an object with a \"text\"", item, problem);
        if (r == 0)
            r = add_text(inputs, text, at, problem);
    }
    return r;
}
