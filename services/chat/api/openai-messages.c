/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages in the format of OpenAI's API into a conversation. Refuses content parts other
 * than text; the error names the part. */
#include "chat/api/openai-body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/str.h"

#define MESSAGES_MAX 65536

static const char *const message_fields[] = {
    "role",      "content", "name",        "tool_calls", "tool_call_id",  "reasoning_content",
    "reasoning", "refusal", "annotations", "audio",      "function_call", "thinking",
    NULL,
};

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
                           "only text is supported.",
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

/* Reads the content, which is a string or an array of parts. Messages of the assistant may have no
 * content. */
static int content_read(json_t *object, struct message *m, const char *prefix,
                        struct problem *problem)
{
    json_t *content = field_find(object, "content"), *part;
    _cleanup_str_ struct str text = {};
    char param[96];
    size_t i;
    int r;

    if (json_is_string(content)) {
        m->text = json_incref(content);
        return 0;
    }
    snprintf(param, sizeof(param), "%s.content", prefix);
    if (!content && m->role != ROLE_ASSISTANT)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!content)
        return 0;
    if (!json_is_array(content))
        return field_wrong_type(param, "a string or an array of content parts", content, problem);
    json_array_foreach(content, i, part)
    {
        snprintf(param, sizeof(param), "%s.content[%zu]", prefix, i);
        r = part_text(part, param, &text, problem);
        if (r < 0)
            return r;
    }
    m->text = json_stringn(text.len ? text.data : "", text.len);
    return m->text ? 0 : problem_no_memory(problem);
}

/* Reads an optional string. @names are alternative names of the field; NULL-terminated. */
static int string_read(json_t *object, const char *prefix, const char *const *names,
                       json_t **ret_string, struct problem *problem)
{
    char param[96];

    for (; *names; names++) {
        json_t *value = field_find(object, *names);

        if (!value)
            continue;
        snprintf(param, sizeof(param), "%s.%s", prefix, *names);
        if (!json_is_string(value))
            return field_wrong_type(param, "a string", value, problem);
        if (!*ret_string)
            *ret_string = json_incref(value);
    }
    return 0;
}

/* Reads the arguments of a call: an object, or a text. */
static int arguments_read(json_t *function, const char *param, size_t *room, json_t **ret_arguments,
                          struct problem *problem)
{
    json_t *arguments = json_object_get(function, "arguments");
    int r;

    if (!json_is_string(arguments)) {
        *ret_arguments = json_incref(arguments);
        return 0;
    }
    r = message_parse_arguments(arguments, room, ret_arguments);
    if (r == -E2BIG)
        return problem_set(problem, 400, "too_many_values", param,
                           "The arguments of tool calls have too many values: together they take "
                           "more than %zu MiB of memory.",
                           CONVERSATION_MAX_ARGUMENTS >> 20);
    return r < 0 ? problem_no_memory(problem) : 0;
}

/* Reads a function that the assistant called. @call has the id; NULL: the call has none. */
static int function_read(json_t *call, json_t *function, struct message *m, const char *param,
                         size_t *room, struct problem *problem)
{
    json_t *name = json_object_get(function, "name"), *id = field_find(call, "id"), *arguments;
    int r;

    if (!json_is_object(function) || !json_is_string(name))
        return problem_set(problem, 400, "missing_field", param,
                           "'%s' must have a function with a name.", param);
    if (id && !json_is_string(id))
        return field_wrong_type(param, "a string as its id", id, problem);
    r = arguments_read(function, param, room, &arguments, problem);
    if (r < 0)
        return r;
    r = message_add_call(m, json_incref(id), json_incref(name), arguments);
    return r < 0 ? problem_no_memory(problem) : 0;
}

static int calls_read(json_t *object, struct message *m, const char *prefix, size_t *room,
                      struct problem *problem)
{
    json_t *calls = field_find(object, "tool_calls"), *legacy = field_find(object, "function_call");
    json_t *call;
    char param[96];
    size_t i;

    snprintf(param, sizeof(param), "%s.tool_calls", prefix);
    if (calls && !json_is_array(calls))
        return field_wrong_type(param, "an array", calls, problem);
    json_array_foreach(calls, i, call)
    {
        int r;

        snprintf(param, sizeof(param), "%s.tool_calls[%zu]", prefix, i);
        r = function_read(call, json_object_get(call, "function"), m, param, room, problem);
        if (r < 0)
            return r;
    }
    if (!legacy || calls)
        return 0;
    snprintf(param, sizeof(param), "%s.function_call", prefix);
    return function_read(NULL, legacy, m, param, room, problem);
}

static int role_read(json_t *object, const char *prefix, enum message_role *ret_role,
                     struct problem *problem)
{
    json_t *role = field_find(object, "role");
    char param[96];

    snprintf(param, sizeof(param), "%s.role", prefix);
    if (!role)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_string(role))
        return field_wrong_type(param, "a string", role, problem);
    for (int i = 0; i < N_ROLES; i++)
        if (field_is(role, message_role_name(i))) {
            *ret_role = i;
            return 0;
        }
    return problem_set(problem, 400, "invalid_value", param,
                       "Invalid value: '%.40s'. Supported values are: 'system', 'developer', "
                       "'user', 'assistant', 'tool', and 'function'.",
                       json_string_value(role));
}

static int message_read(json_t *object, size_t i, struct conversation *c, size_t *room,
                        struct problem *problem)
{
    static const char *const names[] = {"name", NULL}, *const call_ids[] = {"tool_call_id", NULL};
    static const char *const thoughts[] = {"reasoning_content", "reasoning", "thinking", NULL};
    struct message *m = conversation_add(c);
    char prefix[48], fields[64];
    int r;

    if (!m)
        return problem_no_memory(problem);
    snprintf(prefix, sizeof(prefix), "messages[%zu]", i);
    snprintf(fields, sizeof(fields), "%s.", prefix);
    if (!json_is_object(object))
        return field_wrong_type(prefix, "an object", object, problem);
    if ((r = fields_known(object, fields, message_fields, problem)) < 0 ||
        (r = role_read(object, prefix, &m->role, problem)) < 0 ||
        (r = string_read(object, prefix, names, &m->name, problem)) < 0 ||
        (r = content_read(object, m, prefix, problem)) < 0 ||
        (r = string_read(object, prefix, call_ids, &m->call_id, problem)) < 0 ||
        (r = string_read(object, prefix, thoughts, &m->reasoning, problem)) < 0)
        return r;
    return calls_read(object, m, prefix, room, problem);
}

static int messages_read(json_t *messages, struct conversation *c, struct problem *problem)
{
    size_t room = CONVERSATION_MAX_ARGUMENTS;
    json_t *message;
    size_t i;
    int r;

    if (!messages || json_is_null(messages))
        return problem_set(problem, 400, "missing_field", "messages",
                           "Missing required parameter: 'messages'.");
    if ((r = field_check_array(messages, "messages", "an array of objects", MESSAGES_MAX,
                               problem)) < 0)
        return r;
    if (!json_array_size(messages))
        return problem_set(problem, 400, "empty_array", "messages",
                           "Invalid 'messages': an empty array; it needs one message at least.");
    json_array_foreach(messages, i, message)
    {
        r = message_read(message, i, c, &room, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Reads the variables of the template. */
static int variables_read(json_t *body, struct conversation *c, struct problem *problem)
{
    static const char *const reserved[] = {"messages",  "tools",     "documents",
                                           "bos_token", "eos_token", "add_generation_prompt"};
    json_t *variables = field_find(body, "chat_template_kwargs");

    if (variables && !json_is_object(variables))
        return field_wrong_type("chat_template_kwargs", "an object", variables, problem);
    for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
        if (json_object_get(variables, reserved[i]))
            return problem_set(problem, 400, "invalid_value", "chat_template_kwargs",
                               "'chat_template_kwargs' must not set \"%s\".", reserved[i]);
    c->variables = json_incref(variables);
    return 0;
}

int openai_conversation_read(json_t *body, struct conversation *c, struct problem *problem)
{
    json_t *documents = field_find(body, "documents");
    bool adds_prompt = true, continues = false;
    int r, given;

    r = messages_read(json_object_get(body, "messages"), c, problem);
    if (r < 0)
        return r;
    if (documents && !json_is_array(documents))
        return field_wrong_type("documents", "an array", documents, problem);
    c->documents = json_incref(documents);
    given = field_bool(body, "add_generation_prompt", &adds_prompt, problem);
    r = given < 0 ? given : field_bool(body, "continue_final_message", &continues, problem);
    if (r < 0)
        return r;
    c->adds_no_prompt = !adds_prompt;
    if (continues && given && adds_prompt)
        return problem_set(problem, 400, "invalid_value", "continue_final_message",
                           "'continue_final_message' is not possible with "
                           "'add_generation_prompt': true.");
    if (continues && c->messages[c->n_messages - 1].role != ROLE_ASSISTANT)
        return problem_set(problem, 400, "invalid_value", "continue_final_message",
                           "'continue_final_message' needs a last message of the assistant.");
    c->continues = continues;
    return variables_read(body, c, problem);
}
