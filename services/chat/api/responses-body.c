/* SPDX-License-Identifier: Apache-2.0 */
/* Reads bodies of the Responses API (see responses-body.h). */
#include "chat/api/responses-body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/openai-body.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define BODY_MAX_METADATA 16
#define BODY_MAX_ID       64

/* The fields that openai_params_read() does not know. */
static const char *const body_fields[] = {
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "max_output_tokens",
    "max_tool_calls",
    "top_logprobs",
    "include",
    "truncation",
    "background",
    "prompt_cache_retention",
    "client_metadata",
    "previous_response_id",
    "conversation",
    "prompt",
    "enable_thinking",
    "chat_template_kwargs",
    NULL,
};

/* Returns whether @value is one of the NULL-terminated @words. */
static bool word_is_known(const json_t *value, const char *const *words)
{
    while (*words && !field_is(value, *words))
        words++;
    return *words != NULL;
}

/* --- input --- */

static int input_read(json_t *json, struct responses_body *body, struct problem *problem)
{
    json_t *input = field_find(json, "input"), *item, *id;
    size_t i;

    if (json_is_string(input))
        body->input = json_pack("[{s:s,s:s,s:[{s:s,s:O}]}]", "type", "message", "role", "user",
                                "content", "type", "input_text", "text", input);
    else
        body->input = input ? json_incref(input) : json_array();
    if (!body->input)
        return problem_no_memory(problem);
    if (!json_is_array(body->input))
        return field_wrong_type("input", "a string or an array of items", input, problem);
    json_array_foreach(body->input, i, item)
    {
        id = json_object_get(item, "id");
        if (!field_is(json_object_get(item, "type"), "item_reference") || !json_is_string(id))
            continue;
        if (!body->references)
            body->references = json_array();
        if (json_array_append(body->references, id) < 0)
            return problem_no_memory(problem);
    }
    return 0;
}

/* Reads an optional id; *ret_id is a new reference. */
static int id_read(json_t *value, const char *name, json_t **ret_id, struct problem *problem)
{
    if (!value)
        return 0;
    if (!json_is_string(value))
        return field_wrong_type(name, "a string", value, problem);
    if (!json_string_length(value) || json_string_length(value) > BODY_MAX_ID)
        return problem_set(problem, 400, "invalid_value", name, "Invalid value for '%s'.", name);
    *ret_id = json_incref(value);
    return 0;
}

/* Reads the id of the conversation or of the response that the request continues. */
static int links_read(json_t *json, struct responses_body *body, struct problem *problem)
{
    json_t *conversation = field_find(json, "conversation");
    json_t *previous = field_find(json, "previous_response_id");
    static const char *const names[] = {"id", NULL};
    int r;

    if (conversation && previous)
        return problem_set(problem, 400, "invalid_value", "conversation",
                           "'conversation' and 'previous_response_id' exclude each other.");
    if (json_is_object(conversation)) {
        if ((r = fields_known(conversation, "conversation.", names, problem)) < 0)
            return r;
        conversation = json_object_get(conversation, "id");
        if (!conversation)
            return problem_set(problem, 400, "missing_field", "conversation.id",
                               "Missing required parameter: 'conversation.id'.");
    }
    r = id_read(conversation, "conversation", &body->conversation, problem);
    return r < 0 ? r : id_read(previous, "previous_response_id", &body->previous, problem);
}

/* --- the answer --- */

static int format_read(json_t *text, struct params *params, struct problem *problem)
{
    static const char *const names[] = {"type", "name", "schema", "strict", "description", NULL};
    json_t *format = field_find(text, "format"), *type, *schema;
    struct constraint *c = &params->constraint;

    if (!format)
        return 0;
    if (!json_is_object(format))
        return field_wrong_type("text.format", "an object", format, problem);
    if (fields_known(format, "text.format.", names, problem) < 0)
        return -EINVAL;
    type = json_object_get(format, "type");
    schema = json_object_get(format, "schema");
    if (field_is(type, "text"))
        return 0;
    c->field = "text.format";
    if (field_is(type, "json_object")) {
        c->kind = CONSTRAINT_JSON;
        return 0;
    }
    if (!field_is(type, "json_schema"))
        return problem_set(problem, 400, "invalid_value", "text.format.type",
                           "Invalid value for 'text.format.type': it must be \"text\", "
                           "\"json_object\" or \"json_schema\".");
    if (!json_is_object(schema))
        return problem_set(problem, 400, "missing_field", "text.format.schema",
                           "Missing required parameter: 'text.format.schema', an object.");
    c->kind = CONSTRAINT_SCHEMA;
    c->field = "text.format.schema";
    c->value = json_incref(schema);
    return 0;
}

static int text_read(json_t *json, struct params *params, struct problem *problem)
{
    static const char *const names[] = {"format", "verbosity", NULL};
    static const char *const levels[] = {"low", "medium", "high", NULL};
    json_t *text = field_find(json, "text"), *verbosity;

    if (!text)
        return 0;
    if (!json_is_object(text))
        return field_wrong_type("text", "an object", text, problem);
    if (fields_known(text, "text.", names, problem) < 0)
        return -EINVAL;
    verbosity = field_find(text, "verbosity");
    if (verbosity && !word_is_known(verbosity, levels))
        return problem_set(problem, 400, "invalid_value", "text.verbosity",
                           "Invalid value for 'text.verbosity': it must be \"low\", \"medium\" or "
                           "\"high\".");
    return format_read(text, params, problem);
}

static int reasoning_read(json_t *json, struct responses_body *body, struct params *params,
                          struct problem *problem)
{
    static const char *const names[] = {"effort", "summary", "generate_summary", NULL};
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max", NULL};
    static const char *const summaries[] = {"auto", "concise", "detailed", NULL};
    json_t *reasoning = field_find(json, "reasoning"), *effort, *summary;

    if (!reasoning)
        return 0;
    if (!json_is_object(reasoning))
        return field_wrong_type("reasoning", "an object", reasoning, problem);
    if (fields_known(reasoning, "reasoning.", names, problem) < 0)
        return -EINVAL;
    effort = field_find(reasoning, "effort");
    if (effort && !word_is_known(effort, efforts))
        return problem_set(problem, 400, "invalid_value", "reasoning.effort",
                           "Invalid value for 'reasoning.effort': it must be \"none\", "
                           "\"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\".");
    summary = field_find(reasoning, "summary");
    summary = summary ? summary : field_find(reasoning, "generate_summary");
    if (summary && !field_is(summary, "none") && !word_is_known(summary, summaries))
        return problem_set(problem, 400, "invalid_value", "reasoning.summary",
                           "Invalid value for 'reasoning.summary': it must be \"auto\", "
                           "\"concise\" or \"detailed\".");
    body->summarizes = summary && !field_is(summary, "none");
    if (field_is(effort, "none"))
        params->reasoning.enabled = 0;
    else
        params->reasoning.effort = json_incref(effort);
    return 0;
}

static int include_read(json_t *json, struct responses_body *body, struct problem *problem)
{
    static const char *const known[] = {
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
        "message.input_image.image_url",
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        NULL,
    };
    json_t *include = field_find(json, "include"), *word;
    size_t i;

    if (include && !json_is_array(include))
        return field_wrong_type("include", "an array", include, problem);
    json_array_foreach(include, i, word)
    {
        char param[32];

        snprintf(param, sizeof(param), "include[%zu]", i);
        if (!word_is_known(word, known))
            return problem_set(problem, 400, "invalid_value", param,
                               "Invalid value for '%s': \"%.60s\" is not known here.", param,
                               json_is_string(word) ? json_string_value(word) : "?");
        if (field_is(word, "message.output_text.logprobs"))
            body->with_logprobs = true;
    }
    return 0;
}

/* --- the other fields --- */

/* Reads fields that have no effect, and fields of which only one value is supported. */
static int ignored_read(json_t *json, struct problem *problem)
{
    static const char *const retentions[] = {"in_memory", "in-memory", "24h", NULL};
    json_t *value = field_find(json, "truncation");
    bool background = false;
    int64_t number = 0;
    int r;

    if (value && !field_is(value, "disabled") && !field_is(value, "auto"))
        return problem_set(problem, 400, "invalid_value", "truncation",
                           "Invalid value for 'truncation': it must be \"auto\" or \"disabled\".");
    if (field_is(value, "auto"))
        return problem_set(problem, 400, "unsupported_value", "truncation",
                           "Unsupported value: 'truncation' must be \"disabled\" here.");
    if ((r = field_bool(json, "background", &background, problem)) < 0 ||
        (r = field_int(json, "max_tool_calls", 0, INT32_MAX, &number, problem)) < 0)
        return r;
    if (background)
        return problem_set(problem, 400, "unsupported_value", "background",
                           "Unsupported value: 'background' must be false here.");
    value = field_find(json, "prompt_cache_retention");
    if (value && !word_is_known(value, retentions))
        return problem_set(
            problem, 400, "invalid_value", "prompt_cache_retention",
            "Invalid value for 'prompt_cache_retention': it must be \"in_memory\" or "
            "\"24h\".");
    value = field_find(json, "client_metadata");
    if (value && !json_is_object(value))
        return field_wrong_type("client_metadata", "an object", value, problem);
    if (field_find(json, "prompt"))
        return problem_set(problem, 400, "unsupported_parameter", "prompt",
                           "Unsupported parameter: 'prompt' is not supported here.");
    return 0;
}

static int metadata_check(json_t *json, struct problem *problem)
{
    json_t *metadata = field_find(json, "metadata"), *value;
    const char *name;

    if (json_object_size(metadata) > BODY_MAX_METADATA)
        return problem_set(problem, 400, "invalid_value", "metadata",
                           "'metadata' has more than %d entries.", BODY_MAX_METADATA);
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value))
            return field_wrong_type("metadata", "strings", value, problem);
    }
    return 0;
}

/* Reads the fields that OpenAI's other APIs also have. The field `store` is handled here, because
 * it has another meaning there. */
static int shared_read(json_t *json, struct responses_body *body, struct params *params,
                       struct problem *problem)
{
    _cleanup_json_ json_t *rest = json_copy(json);
    int64_t max_tokens = 0, top = 0;
    int r;

    if (!rest)
        return problem_no_memory(problem);
    json_object_del(rest, "store");
    if ((r = openai_params_read(params, rest, problem)) < 0 ||
        (r = field_int(json, "max_output_tokens", 1, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_int(json, "top_logprobs", 0, 20, &top, problem)) < 0)
        return r;
    params->max_tokens = (uint32_t)max_tokens;
    if (params->n != 1)
        return problem_set(problem, 400, "unsupported_value", "n",
                           "Unsupported value: 'n' must be 1 here.");
    body->with_logprobs |= top > 0;
    params->n_logprobs = body->with_logprobs ? (int)top : -1;
    body->store = true;
    r = field_bool(json, "store", &body->store, problem);
    body->must_store = r > 0 && body->store;
    return r < 0 ? r : metadata_check(json, problem);
}

/* Reads the variables of the template, with the field names of /v1/chat/completions. */
static int variables_read(json_t *json, struct params *params, struct conversation *conversation,
                          struct problem *problem)
{
    json_t *variables = field_find(json, "chat_template_kwargs");
    bool thinks = false;
    int r = field_bool(json, "enable_thinking", &thinks, problem);

    if (r < 0)
        return r;
    if (r > 0)
        params->reasoning.enabled = thinks;
    if (variables && !json_is_object(variables))
        return field_wrong_type("chat_template_kwargs", "an object", variables, problem);
    conversation->variables = json_incref(variables);
    return 0;
}

/* --- what the response repeats --- */

/* Writes @mark and "NAME":VALUE. @fallback is the text of the value if @value is NULL. */
static int echo_put(struct str *out, const char *mark, const char *name, const json_t *value,
                    const char *fallback)
{
    _cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    return value && !text ? -ENOMEM
                          : str_printf(out, "%s\"%s\":%s", mark, name, text ? text : fallback);
}

static int echo_make(json_t *json, const struct responses_body *body, struct str *out)
{
    static const struct {
        const char *name, *fallback;
    } fields[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"prompt_cache_key", "null"},
        {"safety_identifier", "null"},
        {"temperature", "1.0"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_logprobs", "0"},
        {"top_p", "1.0"},
        {"truncation", "\"disabled\""},
        {"user", "null"},
        {"metadata", "{}"},
    };
    json_t *reasoning = field_find(json, "reasoning"), *text = field_find(json, "text");
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
        r = echo_put(out, ",", fields[i].name, field_find(json, fields[i].name),
                     fields[i].fallback);
    r = r < 0 ? r : str_puts(out, ",\"background\":false,\"service_tier\":\"default\"");
    r = r < 0 ? r : str_puts(out, ",\"reasoning\":");
    r = r < 0 ? r : echo_put(out, "{", "effort", field_find(reasoning, "effort"), "null");
    r = r < 0 ? r : echo_put(out, ",", "summary", field_find(reasoning, "summary"), "null");
    r = r < 0 ? r : str_puts(out, "},\"text\":");
    r = r < 0 ? r : echo_put(out, "{", "format", field_find(text, "format"), "{\"type\":\"text\"}");
    r = r < 0 ? r : echo_put(out, ",", "verbosity", field_find(text, "verbosity"), "\"medium\"");
    r = r < 0 ? r : str_puts(out, "},\"conversation\":");
    if (!body->conversation)
        return r < 0 ? r : str_puts(out, "null");
    r = r < 0 ? r : str_puts(out, "{\"id\":");
    r = r < 0 ? r : json_put_text(out, json_string_value(body->conversation));
    return r < 0 ? r : str_putc(out, '}');
}

int responses_body_read(json_t *json, struct responses_body *body, struct params *params,
                        struct conversation *conversation, struct problem *problem)
{
    json_t *instructions = field_find(json, "instructions");
    int r;

    *body = (struct responses_body){0};
    if (instructions && !json_is_string(instructions))
        return field_wrong_type("instructions", "a string", instructions, problem);
    body->instructions = json_incref(instructions);
    if ((r = openai_fields_known(json, body_fields, problem)) < 0 ||
        (r = include_read(json, body, problem)) < 0 ||
        (r = shared_read(json, body, params, problem)) < 0 ||
        (r = ignored_read(json, problem)) < 0 || (r = links_read(json, body, problem)) < 0 ||
        (r = text_read(json, params, problem)) < 0 ||
        (r = reasoning_read(json, body, params, problem)) < 0 ||
        (r = variables_read(json, params, conversation, problem)) < 0 ||
        (r = responses_tools_read(json, body, params, conversation, problem)) < 0 ||
        (r = input_read(json, body, problem)) < 0 ||
        (r = responses_items_read(body, NULL, NULL, conversation, problem)) < 0)
        return r;
    return echo_make(json, body, &body->echo) < 0 ? problem_no_memory(problem) : 0;
}

void responses_body_done(struct responses_body *body)
{
    json_decref(body->instructions);
    json_decref(body->input);
    json_decref(body->references);
    json_decref(body->previous);
    json_decref(body->conversation);
    json_decref(body->namespaces);
    str_done(&body->echo);
}
