/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages in the format of OpenAI's API. Parts other than text are refused by name. */
#include "chat/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/str.h"

#define MESSAGES_MAX 65536
#define MESSAGES_MAX_ARGUMENTS                                                                     \
    ((size_t)32 << 20) /* memory of the parsed arguments of one request, in bytes */

static const char *const message_fields[] = {
    "role",      "content", "name",        "tool_calls", "tool_call_id",  "reasoning_content",
    "reasoning", "refusal", "annotations", "audio",      "function_call", "thinking",
    NULL,
};

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};

static int part_text(json_t *part, const char *param, struct str *out, struct problem *problem)
{
    json_t *type, *text;

    if (!json_is_object(part))
        return field_wrong_type(param, "an object", part, problem);
    type = json_object_get(part, "type");
    if (!json_is_string(type))
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s.type'.", param);
    if (!field_is(type, "text") && !field_is(type, "input_text") && !field_is(type, "refusal"))
        return problem_set(problem, 400, "unsupported_content", param,
                           "Content parts of type \"%.40s\" are not supported by this model: "
                           "only text is.",
                           json_string_value(type));
    text = json_object_get(part, field_is(type, "refusal") ? "refusal" : "text");
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
        if (!field_is(json_object_get(message, "role"), "assistant"))
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

/* Templates expect arguments as an object, but clients send it as text. Text that is not an object
 * is unchanged. */
static int arguments_normalize(json_t *function, const char *param, size_t *room,
                               struct problem *problem)
{
    json_t *arguments = json_object_get(function, "arguments");
    _cleanup_json_ json_t *parsed = NULL;
    struct inf_err err = {};
    int r;

    if (!json_is_string(arguments))
        return 0;
    r = json_parse_within(json_string_value(arguments), json_string_length(arguments), room,
                          &parsed, &err);
    if (r == -E2BIG)
        return problem_set(problem, 400, "too_many_values", param,
                           "The arguments of tool calls have too many values: together they take "
                           "more than %zu MiB of memory.",
                           MESSAGES_MAX_ARGUMENTS >> 20);
    if (r == -ENOMEM ||
        (json_is_object(parsed) && json_object_set(function, "arguments", parsed) < 0))
        return problem_no_memory(problem);
    return 0;
}

static int tool_calls_normalize(json_t *message, const char *prefix, size_t *room,
                                struct problem *problem)
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
        json_t *function = json_object_get(call, "function");
        int r;

        snprintf(param, sizeof(param), "%s.tool_calls[%zu]", prefix, i);
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return problem_set(problem, 400, "missing_field", param,
                               "'%s' must have a function with a name.", param);
        r = arguments_normalize(function, param, room, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

static int message_normalize(json_t *message, size_t i, size_t *room, struct problem *problem)
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
    while (k < ARRAY_SIZE(roles) && !field_is(role, roles[k]))
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
    return r < 0 ? r : tool_calls_normalize(message, prefix, room, problem);
}

int messages_normalize(json_t *messages, struct problem *problem)
{
    size_t room = MESSAGES_MAX_ARGUMENTS;
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
        r = message_normalize(message, i, &room, problem);
        if (r < 0)
            return r;
    }
    return 0;
}
