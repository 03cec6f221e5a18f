/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages and tools in the format of Ollama's API into a conversation. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/ollama-body.h"
#include "chat/api/openai-body.h"
#include "common/wire/fields.h"

#define MESSAGES_MAX 65536
#define PATH_SIZE    96

static const char *const message_fields[] = {
    "role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id", NULL,
};

int ollama_refuse_images(const json_t *images, const char *param, struct problem *problem)
{
    if (!images || json_is_null(images))
        return 0;
    if (!json_is_array(images))
        return field_wrong_type(param, "an array", images, problem);
    if (!json_array_size(images))
        return 0;
    return problem_set(problem, 400, "unsupported_content", param,
                       "Unsupported parameter: '%s' is not supported by this model: only text is "
                       "supported.",
                       param);
}

/* Reads the optional string @name of an object. @prefix is the path of the object. */
static int string_read(json_t *object, const char *prefix, const char *name, json_t **ret_string,
                       struct problem *problem)
{
    json_t *value = field_find(object, name);
    char param[PATH_SIZE];

    if (!value)
        return 0;
    snprintf(param, sizeof(param), "%s.%s", prefix, name);
    if (!json_is_string(value))
        return field_wrong_type(param, "a string", value, problem);
    *ret_string = json_incref(value);
    return 0;
}

static int role_read(json_t *object, const char *prefix, enum message_role *ret_role,
                     struct problem *problem)
{
    static const enum message_role roles[] = {ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER,
                                              ROLE_ASSISTANT, ROLE_TOOL};
    const json_t *role = field_find(object, "role");
    char param[PATH_SIZE];

    snprintf(param, sizeof(param), "%s.role", prefix);
    if (!role)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
        if (field_is(role, message_role_name(roles[i]))) {
            *ret_role = roles[i];
            return 0;
        }
    if (!json_is_string(role))
        return field_wrong_type(param, "a string", role, problem);
    return problem_set(problem, 400, "invalid_value", param,
                       "Invalid value for '%s': it must be \"system\", \"developer\", \"user\", "
                       "\"assistant\" or \"tool\".",
                       param);
}

/* Reads one element of "tool_calls". @param is the path of the element. */
static int call_read(json_t *call, struct message *m, const char *param, struct problem *problem)
{
    json_t *function = json_is_object(call) ? field_find(call, "function") : NULL;
    json_t *name = json_is_object(function) ? field_find(function, "name") : NULL;
    json_t *arguments = name ? field_find(function, "arguments") : NULL, *id = NULL;
    int r;

    if (!json_is_string(name))
        return problem_set(problem, 400, "missing_field", param,
                           "'%s' must have a function with a name.", param);
    if (arguments && !json_is_object(arguments))
        return problem_set(problem, 400, "invalid_type", param,
                           "Invalid type for '%s.function.arguments': expected an object.", param);
    r = string_read(call, param, "id", &id, problem);
    if (r < 0)
        return r;
    r = message_add_call(m, id, json_incref(name), json_incref(arguments));
    return r < 0 ? problem_no_memory(problem) : 0;
}

static int calls_read(json_t *object, struct message *m, const char *prefix,
                      struct problem *problem)
{
    json_t *calls = field_find(object, "tool_calls"), *call;
    char param[PATH_SIZE];
    size_t i;
    int r = 0;

    snprintf(param, sizeof(param), "%s.tool_calls", prefix);
    if (calls && !json_is_array(calls))
        return field_wrong_type(param, "an array", calls, problem);
    json_array_foreach(calls, i, call)
    {
        snprintf(param, sizeof(param), "%s.tool_calls[%zu]", prefix, i);
        r = call_read(call, m, param, problem);
        if (r < 0)
            break;
    }
    return r;
}

static int message_read(json_t *object, size_t i, struct conversation *c, struct problem *problem)
{
    struct message *m = conversation_add(c);
    char prefix[48], path[PATH_SIZE];
    int r;

    if (!m)
        return problem_no_memory(problem);
    snprintf(prefix, sizeof(prefix), "messages[%zu]", i);
    if (!json_is_object(object))
        return field_wrong_type(prefix, "an object", object, problem);
    snprintf(path, sizeof(path), "%s.", prefix);
    if ((r = fields_known(object, path, message_fields, problem)) < 0 ||
        (r = role_read(object, prefix, &m->role, problem)) < 0 ||
        (r = string_read(object, prefix, "content", &m->text, problem)) < 0 ||
        (r = string_read(object, prefix, "thinking", &m->reasoning, problem)) < 0 ||
        (r = string_read(object, prefix, "tool_name", &m->name, problem)) < 0 ||
        (r = string_read(object, prefix, "tool_call_id", &m->call_id, problem)) < 0)
        return r;
    snprintf(path, sizeof(path), "%s.images", prefix);
    r = ollama_refuse_images(json_object_get(object, "images"), path, problem);
    return r < 0 ? r : calls_read(object, m, prefix, problem);
}

/* Reads the tools. They have the form of OpenAI's API, but all of them are functions, and their
 * type may be missing. */
static int tools_read(json_t *body, struct tool_rules *rules, struct conversation *c,
                      struct problem *problem)
{
    json_t *tools = field_find(body, "tools"), *tool;
    char param[PATH_SIZE];
    size_t i;

    json_array_foreach(tools, i, tool)
    {
        const json_t *type = json_is_object(tool) ? field_find(tool, "type") : NULL;

        snprintf(param, sizeof(param), "tools[%zu].type", i);
        if (type && !field_is(type, "function"))
            return problem_set(problem, 400, "invalid_value", param,
                               "Invalid value for '%s': it must be \"function\".", param);
        if (json_is_object(tool) && json_object_set_new(tool, "type", json_string("function")) < 0)
            return problem_no_memory(problem);
    }
    return openai_tools_read(body, rules, c, problem);
}

int ollama_conversation_read(json_t *body, struct tool_rules *rules, struct conversation *c,
                             struct problem *problem)
{
    json_t *messages = field_find(body, "messages"), *message;
    size_t i;
    int r = 0;

    if (messages &&
        field_check_array(messages, "messages", "an array of objects", MESSAGES_MAX, problem) < 0)
        return -EINVAL;
    json_array_foreach(messages, i, message)
    {
        r = message_read(message, i, c, problem);
        if (r < 0)
            return r;
    }
    return tools_read(body, rules, c, problem);
}
