/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as OpenAI's API has them; parts that are no text are refused by name
 */
#include "chat/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "core/str.h"

#define MESSAGES_MAX 65536

static const char *const message_fields[] = {
    "role",      "content", "name",        "tool_calls", "tool_call_id",  "reasoning_content",
    "reasoning", "refusal", "annotations", "audio",      "function_call", "thinking",
    NULL,
};

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};

static int part_text(json_t *part, const char *param, struct str *out, struct problem *problem)
{
    const char *type;
    json_t *text;

    if (!json_is_object(part))
        return field_wrong_type(param, "an object", part, problem);
    type = json_string_value(json_object_get(part, "type"));
    if (!type)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s.type'.", param);
    if (strcmp(type, "text") != 0 && strcmp(type, "input_text") != 0 &&
        strcmp(type, "refusal") != 0)
        return problem_set(problem, 400, "unsupported_content", param,
                           "Content parts of type \"%.40s\" are not supported by this model: "
                           "only text is.",
                           type);
    text = json_object_get(part, strcmp(type, "refusal") == 0 ? "refusal" : "text");
    if (!text)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s.text'.", param);
    if (!json_is_string(text))
        return field_wrong_type(param, "a string as its text", text, problem);
    if ((out->len && str_putc(out, '\n') < 0) ||
        str_append(out, json_string_value(text), json_string_length(text)) < 0)
        return problem_no_memory(problem);
    return 0;
}

static int content_normalize(json_t *message, const char *prefix, struct problem *problem)
{
    json_t *content = json_object_get(message, "content"), *part;
    _cleanup_str_ struct str text = {};
    char param[96];
    size_t i;
    int r;

    if (json_is_string(content))
        return 0;
    snprintf(param, sizeof(param), "%s.content", prefix);
    if (!content || json_is_null(content)) {
        const char *role = json_string_value(json_object_get(message, "role"));

        if (strcmp(role, "assistant") != 0)
            return problem_set(problem, 400, "missing_field", param,
                               "Missing required parameter: '%s'.", param);
        return json_object_set_new(message, "content", json_string("")) < 0
                   ? problem_no_memory(problem)
                   : 0;
    }
    if (!json_is_array(content))
        return field_wrong_type(param, "a string or an array of content parts", content, problem);
    json_array_foreach(content, i, part)
    {
        snprintf(param, sizeof(param), "%s.content[%zu]", prefix, i);
        r = part_text(part, param, &text, problem);
        if (r < 0)
            return r;
    }
    if (json_object_set_new(message, "content", json_stringn(text.len ? text.data : "", text.len)) <
        0)
        return problem_no_memory(problem);
    return 0;
}

static int tool_calls_normalize(json_t *message, const char *prefix, struct problem *problem)
{
    json_t *calls = field_find(message, "tool_calls"), *call;
    char param[96];
    size_t i;

    if (!calls) {
        json_object_del(message, "tool_calls");
        return 0;
    }
    snprintf(param, sizeof(param), "%s.tool_calls", prefix);
    if (!json_is_array(calls))
        return field_wrong_type(param, "an array", calls, problem);
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function"), *arguments, *parsed;

        snprintf(param, sizeof(param), "%s.tool_calls[%zu]", prefix, i);
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return problem_set(problem, 400, "missing_field", param,
                               "'%s' must have a function with a name.", param);
        arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments))
            continue;
        parsed = json_loadb(json_string_value(arguments), json_string_length(arguments), 0, NULL);
        if (json_is_object(parsed))
            json_object_set(function, "arguments", parsed);
        json_decref(parsed);
    }
    return 0;
}

static int message_normalize(json_t *message, size_t i, struct problem *problem)
{
    char prefix[48], param[96];
    json_t *role, *name;
    size_t k = 0;
    int r;

    snprintf(prefix, sizeof(prefix), "messages[%zu]", i);
    if (!json_is_object(message))
        return field_wrong_type(prefix, "an object", message, problem);
    snprintf(param, sizeof(param), "%s.", prefix);
    r = fields_known(message, param, message_fields, problem);
    if (r < 0)
        return r;
    snprintf(param, sizeof(param), "%s.role", prefix);
    role = field_find(message, "role");
    if (!role)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_string(role))
        return field_wrong_type(param, "a string", role, problem);
    while (k < ARRAY_SIZE(roles) && strcmp(roles[k], json_string_value(role)) != 0)
        k++;
    if (k == ARRAY_SIZE(roles))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value: '%.40s'. Supported values are: 'system', 'developer', "
                           "'user', 'assistant', 'tool', and 'function'.",
                           json_string_value(role));
    snprintf(param, sizeof(param), "%s.name", prefix);
    name = field_find(message, "name");
    if (name && !json_is_string(name))
        return field_wrong_type(param, "a string", name, problem);
    r = content_normalize(message, prefix, problem);
    return r < 0 ? r : tool_calls_normalize(message, prefix, problem);
}

int messages_normalize(json_t *messages, struct problem *problem)
{
    json_t *message;
    size_t i;
    int r;

    if (!messages || json_is_null(messages))
        return problem_set(problem, 400, "missing_field", "messages",
                           "Missing required parameter: 'messages'.");
    if (!json_is_array(messages))
        return field_wrong_type("messages", "an array of objects", messages, problem);
    if (!json_array_size(messages))
        return problem_set(problem, 400, "empty_array", "messages",
                           "Invalid 'messages': an empty array; it needs one message at least.");
    if (json_array_size(messages) > MESSAGES_MAX)
        return problem_set(problem, 400, "invalid_value", "messages",
                           "'messages' has more than %d entries.", MESSAGES_MAX);
    json_array_foreach(messages, i, message)
    {
        r = message_normalize(message, i, problem);
        if (r < 0)
            return r;
    }
    return 0;
}
