/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the form that an answer must have, from OpenAI's response_format and the fields that vLLM
 * and llama.cpp add. A request may have only one of these fields.
 */
#include <stdio.h>
#include <string.h>

#include "chat/api/openai-body.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define CONSTRAINT_MAX_CHOICES 1024

const char *const openai_constraint_names[] = {
    "response_format", "grammar",        "json_schema",        "guided_json", "guided_regex",
    "guided_choice",   "guided_grammar", "structured_outputs", NULL,
};

/* Takes a reference to @value. A request with two constraints is refused. */
static int constraint_set(struct constraint *c, enum constraint_kind kind, json_t *value,
                          const char *field, struct problem *problem)
{
    if (c->kind != CONSTRAINT_NONE)
        return problem_set(problem, 400, "invalid_value", field,
                           "'%s' cannot be combined with '%s'.", field, c->field);
    c->kind = kind;
    c->value = json_incref(value);
    c->field = field;
    return 0;
}

/* Sets a JSON Schema. The schema may also be given as the text of a JSON object. */
static int schema_set(struct constraint *c, json_t *value, const char *field,
                      struct problem *problem)
{
    json_t *parsed = NULL;
    struct inf_err err = {};
    int r;

    if (!json_is_string(value)) {
        if (!json_is_object(value) && !json_is_boolean(value))
            return field_wrong_type(field, "an object", value, problem);
        return constraint_set(c, CONSTRAINT_SCHEMA, value, field, problem);
    }
    r = json_parse(json_string_value(value), json_string_length(value), &parsed, &err);
    if (r < 0)
        return problem_set(problem, 400, "invalid_value", field,
                           "Invalid value for '%s': it is not JSON: %.200s.", field, err.text);
    r = json_is_object(parsed) ? constraint_set(c, CONSTRAINT_SCHEMA, parsed, field, problem)
                               : field_wrong_type(field, "an object", parsed, problem);
    json_decref(parsed);
    return r;
}

static int text_set(struct constraint *c, enum constraint_kind kind, json_t *value,
                    const char *field, struct problem *problem)
{
    if (!json_is_string(value))
        return field_wrong_type(field, "a string", value, problem);
    if (!json_string_length(value))
        return problem_set(problem, 400, "invalid_value", field,
                           "Invalid value for '%s': an empty string.", field);
    return constraint_set(c, kind, value, field, problem);
}

/* Sets a grammar. Its notation is GBNF if the text contains "::=", and Lark otherwise. */
static int grammar_set(struct constraint *c, json_t *value, const char *field,
                       struct problem *problem)
{
    const char *text = json_string_value(value);
    const bool gbnf = !text || strstr(text, "::=");

    return text_set(c, gbnf ? CONSTRAINT_GBNF : CONSTRAINT_LARK, value, field, problem);
}

static int choices_set(struct constraint *c, json_t *value, const char *field,
                       struct problem *problem)
{
    json_t *item;
    size_t i;

    if (!json_is_array(value))
        return field_wrong_type(field, "an array of strings", value, problem);
    if (!json_array_size(value) || json_array_size(value) > CONSTRAINT_MAX_CHOICES)
        return problem_set(problem, 400, "invalid_value", field, "'%s' must have 1 to %d strings.",
                           field, CONSTRAINT_MAX_CHOICES);
    json_array_foreach(value, i, item)
    {
        if (!json_is_string(item))
            return field_wrong_type(field, "strings", item, problem);
    }
    return constraint_set(c, CONSTRAINT_CHOICE, value, field, problem);
}

/* Reads {"type": "json_schema", "json_schema": {"name": …, "schema": …}}. Also reads llama.cpp's
 * form, {"type": "json_schema", "schema": …}. */
static int format_schema_read(json_t *format, struct constraint *c, struct problem *problem)
{
    static const char *const names[] = {"name", "description", "schema", "strict", NULL};
    json_t *object = field_find(format, "json_schema"), *schema = field_find(format, "schema");
    bool strict = false;
    int r;

    if (!object && schema)
        return schema_set(c, schema, "response_format.schema", problem);
    if (!object)
        return problem_set(problem, 400, "missing_field", "response_format.json_schema",
                           "Missing required parameter: 'response_format.json_schema'.");
    if (!json_is_object(object))
        return field_wrong_type("response_format.json_schema", "an object", object, problem);
    r = fields_known(object, "response_format.json_schema.", names, problem);
    r = r < 0 ? r : field_bool(object, "strict", &strict, problem);
    if (r < 0)
        return r;
    schema = field_find(object, "schema");
    if (!schema)
        return problem_set(problem, 400, "missing_field", "response_format.json_schema.schema",
                           "Missing required parameter: 'response_format.json_schema.schema'.");
    return schema_set(c, schema, "response_format.json_schema.schema", problem);
}

/* Reads the format of text-generation-inference, which Hugging Face's client sends: the schema or
 * the regular expression is in `value`. */
static int format_value_read(json_t *type, json_t *value, struct constraint *c,
                             struct problem *problem)
{
    static const char field[] = "response_format.value";

    if (field_is(type, "regex"))
        return text_set(c, CONSTRAINT_REGEX, value, field, problem);
    if (field_is(type, "json") || field_is(type, "json_object") || field_is(type, "json_schema"))
        return schema_set(c, value, field, problem);
    return problem_set(problem, 400, "unsupported_parameter", "response_format",
                       "Invalid value for 'response_format.type': with 'value' it must be "
                       "\"json\", \"json_object\", \"json_schema\" or \"regex\".");
}

static int format_read(json_t *format, struct constraint *c, struct problem *problem)
{
    static const char *const names[] = {"type", "json_schema", "schema", "value", NULL};
    json_t *type = field_find(format, "type"), *schema = field_find(format, "schema");
    json_t *value = field_find(format, "value");
    int r;

    if (!json_is_object(format))
        return field_wrong_type("response_format", "an object", format, problem);
    r = fields_known(format, "response_format.", names, problem);
    if (r < 0)
        return r;
    if (value && (schema || field_find(format, "json_schema")))
        return problem_set(problem, 400, "invalid_value", "response_format.value",
                           "'response_format.value' cannot be combined with another schema.");
    if (value)
        return format_value_read(type, value, c, problem);
    if (field_is(type, "text"))
        return 0;
    if (field_is(type, "json_schema"))
        return format_schema_read(format, c, problem);
    if (field_is(type, "json_object") && schema)
        return schema_set(c, schema, "response_format.schema", problem);
    if (field_is(type, "json_object"))
        return constraint_set(c, CONSTRAINT_JSON, NULL, "response_format", problem);
    return problem_set(problem, 400, "unsupported_parameter", "response_format",
                       "Invalid value for 'response_format.type': it must be \"text\", "
                       "\"json_object\" or \"json_schema\".");
}

/* Reads vLLM's object of constraints. */
static int structured_read(json_t *object, struct constraint *c, struct problem *problem)
{
    static const char *const names[] = {
        "json", "regex", "choice", "grammar", "json_object", "disable_any_whitespace", NULL};
    json_t *value;
    bool any = false, ignored = false;
    int r;

    if (!json_is_object(object))
        return field_wrong_type("structured_outputs", "an object", object, problem);
    if ((r = fields_known(object, "structured_outputs.", names, problem)) < 0 ||
        (r = field_bool(object, "json_object", &any, problem)) < 0 ||
        (r = field_bool(object, "disable_any_whitespace", &ignored, problem)) < 0)
        return r;
    r = 0;
    if ((value = field_find(object, "json")))
        r = schema_set(c, value, "structured_outputs.json", problem);
    if (r == 0 && (value = field_find(object, "regex")))
        r = text_set(c, CONSTRAINT_REGEX, value, "structured_outputs.regex", problem);
    if (r == 0 && (value = field_find(object, "choice")))
        r = choices_set(c, value, "structured_outputs.choice", problem);
    if (r == 0 && (value = field_find(object, "grammar")))
        r = grammar_set(c, value, "structured_outputs.grammar", problem);
    if (r == 0 && any)
        r = constraint_set(c, CONSTRAINT_JSON, NULL, "structured_outputs.json_object", problem);
    return r;
}

int openai_constraint_read(json_t *body, struct constraint *c, struct problem *problem)
{
    json_t *value;
    int r = 0;

    if ((value = field_find(body, "response_format")))
        r = format_read(value, c, problem);
    if (r == 0 && (value = field_find(body, "json_schema")))
        r = schema_set(c, value, "json_schema", problem);
    if (r == 0 && (value = field_find(body, "guided_json")))
        r = schema_set(c, value, "guided_json", problem);
    if (r == 0 && (value = field_find(body, "guided_regex")))
        r = text_set(c, CONSTRAINT_REGEX, value, "guided_regex", problem);
    if (r == 0 && (value = field_find(body, "guided_choice")))
        r = choices_set(c, value, "guided_choice", problem);
    if (r == 0 && (value = field_find(body, "guided_grammar")))
        r = grammar_set(c, value, "guided_grammar", problem);
    if (r == 0 && (value = field_find(body, "structured_outputs")))
        r = structured_read(value, c, problem);
    if (r == 0 && (value = field_find(body, "grammar")) &&
        !(json_is_string(value) && !json_string_length(value)))
        r = grammar_set(c, value, "grammar", problem);
    return r;
}
