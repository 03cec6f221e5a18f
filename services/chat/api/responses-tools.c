/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tools of a request for a response, and the rules that say which tools may be called.
 *
 * Functions and custom tools get OpenAI's format of chat completions, which templates expect. The
 * tools of a namespace get names of their own, NAMESPACE__NAME. Tools that run on OpenAI's servers
 * are skipped, because agents list such tools but can work without them. A request that demands the
 * call of such a tool is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/responses-body.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define TOOLS_MAX      1024
#define TOOLS_MAX_NAME 256
#define TOOLS_PATH     96

struct tools {
    struct responses_body *body;
    json_t *list; /* the tools that were read, in the format of chat completions */
    json_t *names;
};

static const char *const hosted_types[] = {
    "web_search",
    "web_search_preview",
    "file_search",
    "image_generation",
    "code_interpreter",
    "computer",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "tool_search",
    NULL,
};

/* Returns whether the tool runs on OpenAI's servers. Some types end with a date or a version. */
static bool tool_is_hosted(const json_t *type)
{
    const char *text = json_string_value(type);

    for (size_t i = 0; text && hosted_types[i]; i++) {
        const size_t len = strlen(hosted_types[i]);

        if (strncmp(text, hosted_types[i], len) == 0 && (!text[len] || text[len] == '_'))
            return true;
    }
    return false;
}

static int tool_fields(json_t *tool, const char *path, const char *const *names,
                       struct problem *problem)
{
    char prefix[TOOLS_PATH + 32];

    snprintf(prefix, sizeof(prefix), "%s.", path);
    return fields_known(tool, prefix, names, problem);
}

/* Reads the name of a tool of the namespace @space; *ret_name is a new reference. */
static int tool_name(struct tools *tools, json_t *tool, const json_t *space, const char *path,
                     json_t **ret_name, struct problem *problem)
{
    json_t *name = field_find(tool, "name"), *pair;
    char param[TOOLS_PATH + 8];

    snprintf(param, sizeof(param), "%s.name", path);
    if (!json_is_string(name))
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s', a string.", param);
    if (!json_string_length(name) || json_string_length(name) > TOOLS_MAX_NAME ||
        strlen(json_string_value(name)) != json_string_length(name))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': it must have 1 to %d bytes.", param,
                           TOOLS_MAX_NAME);
    *ret_name = space ? responses_full_name(json_string_value(space), json_string_value(name))
                      : json_incref(name);
    if (!*ret_name)
        return problem_no_memory(problem);
    if (json_object_get(tools->names, json_string_value(*ret_name))) {
        problem_set(problem, 400, "invalid_value", param, "There are two tools with the name '%s'.",
                    json_string_value(*ret_name));
        json_decref(*ret_name);
        return -EINVAL;
    }
    if (json_object_set_new(tools->names, json_string_value(*ret_name), json_true()) == 0) {
        pair = space ? json_pack("[OO]", space, name) : NULL;
        if (!space || (pair && json_object_set_new(tools->body->namespaces,
                                                   json_string_value(*ret_name), pair) == 0))
            return 0;
    }
    json_decref(*ret_name);
    return problem_no_memory(problem);
}

/* Copies fields of @tool into a new object that has @name; takes over the reference @name. */
static json_t *tool_copy(json_t *tool, json_t *name, const char *const *fields)
{
    json_t *copy = json_object(), *value;
    int r = json_object_set_new(copy, "name", name);

    for (; *fields && r == 0; fields++)
        if ((value = field_find(tool, *fields)))
            r = json_object_set(copy, *fields, value);
    if (r == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* Appends {"type":TYPE,TYPE:@inner} to the list; takes over @inner, which may be NULL. */
static int tool_add(struct tools *tools, const char *type, json_t *inner, struct problem *problem)
{
    json_t *outer = inner ? json_pack("{s:s,s:o}", "type", type, type, inner) : NULL;

    return outer && json_array_append_new(tools->list, outer) == 0 ? 0 : problem_no_memory(problem);
}

static int read_function(struct tools *tools, json_t *tool, const json_t *space, const char *path,
                         struct problem *problem)
{
    static const char *const names[] = {"type",   "name",          "description",   "parameters",
                                        "strict", "defer_loading", "output_schema", NULL};
    static const char *const copied[] = {"description", "parameters", "strict", NULL};
    json_t *parameters = field_find(tool, "parameters"), *name;
    char param[TOOLS_PATH + 16];
    int r;

    if ((r = tool_fields(tool, path, names, problem)) < 0)
        return r;
    snprintf(param, sizeof(param), "%s.parameters", path);
    if (parameters && !json_is_object(parameters))
        return field_wrong_type(param, "an object", parameters, problem);
    r = tool_name(tools, tool, space, path, &name, problem);
    return r < 0 ? r : tool_add(tools, "function", tool_copy(tool, name, copied), problem);
}

/* Converts the format of a custom tool into the form of chat completions. *ret_format is a new
 * reference. */
static int format_read(json_t *tool, const char *path, json_t **ret_format, struct problem *problem)
{
    static const char *const names[] = {"type", "syntax", "definition", NULL};
    json_t *format = field_find(tool, "format"), *syntax, *definition;
    char param[TOOLS_PATH + 16];
    int r;

    *ret_format = NULL;
    snprintf(param, sizeof(param), "%s.format", path);
    if (!format)
        return 0;
    if (!json_is_object(format))
        return field_wrong_type(param, "an object", format, problem);
    if ((r = tool_fields(format, param, names, problem)) < 0)
        return r;
    if (field_is(json_object_get(format, "type"), "text"))
        return 0;
    syntax = json_object_get(format, "syntax");
    definition = json_object_get(format, "definition");
    if (!field_is(json_object_get(format, "type"), "grammar") || !json_is_string(definition) ||
        (!field_is(syntax, "lark") && !field_is(syntax, "regex")))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': its type must be \"text\", or \"grammar\" with "
                           "a definition and the syntax \"lark\" or \"regex\".",
                           param);
    *ret_format = json_pack("{s:s,s:{s:O,s:O}}", "type", "grammar", "grammar", "syntax", syntax,
                            "definition", definition);
    return *ret_format ? 0 : problem_no_memory(problem);
}

static int read_custom(struct tools *tools, json_t *tool, const json_t *space, const char *path,
                       struct problem *problem)
{
    static const char *const names[] = {"type",   "name",          "description",
                                        "format", "defer_loading", NULL};
    static const char *const copied[] = {"description", NULL};
    json_t *name, *format, *inner;
    int r;

    if ((r = tool_fields(tool, path, names, problem)) < 0 ||
        (r = format_read(tool, path, &format, problem)) < 0)
        return r;
    r = tool_name(tools, tool, space, path, &name, problem);
    if (r < 0) {
        json_decref(format);
        return r;
    }
    inner = tool_copy(tool, name, copied);
    if (format && json_object_set_new(inner, "format", format) < 0) {
        json_decref(inner);
        inner = NULL;
    }
    return tool_add(tools, "custom", inner, problem);
}

static int tools_read(struct tools *tools, json_t *array, const json_t *space, const char *prefix,
                      struct problem *problem);

static int read_namespace(struct tools *tools, json_t *tool, const char *path,
                          struct problem *problem)
{
    static const char *const names[] = {"type", "name", "description", "tools", NULL};
    json_t *name = field_find(tool, "name");
    char param[TOOLS_PATH + 16];
    int r = tool_fields(tool, path, names, problem);

    if (r < 0)
        return r;
    snprintf(param, sizeof(param), "%s.name", path);
    if (!json_is_string(name) || json_string_length(name) > TOOLS_MAX_NAME)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s', a string.", param);
    snprintf(param, sizeof(param), "%s.tools", path);
    return tools_read(tools, json_object_get(tool, "tools"), name, param, problem);
}

static int tool_read(struct tools *tools, json_t *tool, const json_t *space, const char *path,
                     struct problem *problem)
{
    json_t *type = json_object_get(tool, "type");
    char param[TOOLS_PATH + 8];

    if (!json_is_object(tool))
        return field_wrong_type(path, "an object", tool, problem);
    if (field_is(type, "function"))
        return read_function(tools, tool, space, path, problem);
    if (field_is(type, "custom"))
        return read_custom(tools, tool, space, path, problem);
    if (field_is(type, "namespace") && !space)
        return read_namespace(tools, tool, path, problem);
    if (tool_is_hosted(type))
        return 0;
    snprintf(param, sizeof(param), "%s.type", path);
    return problem_set(
        problem, 400, "unsupported_value", param,
        "Unsupported value for '%s': tools of type \"%.40s\" are not supported here.", param,
        json_is_string(type) ? json_string_value(type) : "?");
}

static int tools_read(struct tools *tools, json_t *array, const json_t *space, const char *prefix,
                      struct problem *problem)
{
    json_t *tool;
    size_t i;

    if (!json_is_array(array))
        return field_wrong_type(prefix, "an array", array ? array : json_null(), problem);
    json_array_foreach(array, i, tool)
    {
        char path[TOOLS_PATH];
        int r;

        snprintf(path, sizeof(path), "%s[%zu]", prefix, i);
        r = tool_read(tools, tool, space, path, problem);
        if (r < 0)
            return r;
        if (json_array_size(tools->list) > TOOLS_MAX)
            return problem_set(problem, 400, "invalid_value", "tools",
                               "'tools' has more than %d tools.", TOOLS_MAX);
    }
    return 0;
}

/* --- tool_choice --- */

/* Reads {"type","name"}; *ret_name is a new reference to the full name of a tool of the request. */
static int choice_name(struct tools *tools, json_t *choice, const char *path, json_t **ret_name,
                       struct problem *problem)
{
    static const char *const names[] = {"type", "name", "namespace", NULL};
    json_t *type = json_object_get(choice, "type"), *name = json_object_get(choice, "name");
    const json_t *space = field_find(choice, "namespace");
    int r;

    if (!json_is_object(choice))
        return field_wrong_type(path, "an object", choice, problem);
    if (!field_is(type, "function") && !field_is(type, "custom"))
        return problem_set(problem, 400, "unsupported_value", path,
                           "Unsupported value for '%s': tools of type \"%.40s\" cannot be called "
                           "here.",
                           path, json_is_string(type) ? json_string_value(type) : "?");
    if ((r = tool_fields(choice, path, names, problem)) < 0)
        return r;
    if (!json_is_string(name) || (space && !json_is_string(space)))
        return problem_set(problem, 400, "missing_field", path,
                           "Missing required parameter: '%s.name', a string.", path);
    *ret_name = space ? responses_full_name(json_string_value(space), json_string_value(name))
                      : json_incref(name);
    if (!*ret_name)
        return problem_no_memory(problem);
    if (json_object_get(tools->names, json_string_value(*ret_name)))
        return 0;
    problem_set(problem, 400, "invalid_value", path,
                "Invalid value for '%s': there is no tool with the name '%.100s'.", path,
                json_string_value(*ret_name));
    json_decref(*ret_name);
    return -EINVAL;
}

/* Reads {"type":"allowed_tools","mode","tools"}. Skips the tools that run on OpenAI's servers,
 * as tools_read() does. */
static int allowed_read(struct tools *tools, json_t *choice, struct tool_rules *rules,
                        struct problem *problem)
{
    static const char *const names[] = {"type", "mode", "tools", NULL};
    json_t *list = json_object_get(choice, "tools"), *mode = json_object_get(choice, "mode"), *tool;
    size_t i;
    int r = tool_fields(choice, "tool_choice", names, problem);

    if (r < 0)
        return r;
    if (!field_is(mode, "auto") && !field_is(mode, "required"))
        return problem_set(problem, 400, "invalid_value", "tool_choice.mode",
                           "Invalid value for 'tool_choice.mode': it must be \"auto\" or "
                           "\"required\".");
    if (!json_is_array(list))
        return field_wrong_type("tool_choice.tools", "an array", list ? list : json_null(),
                                problem);
    rules->choice = field_is(mode, "required") ? TOOLS_REQUIRED : TOOLS_AUTO;
    rules->allowed = json_array();
    json_array_foreach(list, i, tool)
    {
        char path[64];
        json_t *name;

        if (tool_is_hosted(json_object_get(tool, "type")))
            continue;
        snprintf(path, sizeof(path), "tool_choice.tools[%zu]", i);
        r = choice_name(tools, tool, path, &name, problem);
        if (r < 0)
            return r;
        if (json_array_append_new(rules->allowed, name) < 0)
            return problem_no_memory(problem);
    }
    return 0;
}

static int choice_read(struct tools *tools, json_t *choice, struct tool_rules *rules,
                       struct problem *problem)
{
    int r;

    if (!choice || field_is(choice, "auto"))
        return 0;
    if (field_is(choice, "none") || field_is(choice, "required")) {
        rules->choice = field_is(choice, "none") ? TOOLS_NONE : TOOLS_REQUIRED;
        return 0;
    }
    if (json_is_object(choice) && field_is(json_object_get(choice, "type"), "allowed_tools"))
        return allowed_read(tools, choice, rules, problem);
    if (!json_is_object(choice))
        return problem_set(problem, 400, "invalid_value", "tool_choice",
                           "Invalid value for 'tool_choice': it must be \"auto\", \"none\", "
                           "\"required\" or an object.");
    r = choice_name(tools, choice, "tool_choice", &rules->name, problem);
    if (r == 0)
        rules->choice = TOOLS_NAMED;
    return r;
}

int responses_tools_read(json_t *json, struct responses_body *body, struct params *params,
                         struct conversation *conversation, struct problem *problem)
{
    _cleanup_json_ json_t *list = json_array(), *names = json_object();
    struct tools tools = {.body = body, .list = list, .names = names};
    struct tool_rules *rules = &params->tools;
    json_t *array = field_find(json, "tools");
    bool parallel;
    int r;

    body->namespaces = json_object();
    if (!list || !names || !body->namespaces)
        return problem_no_memory(problem);
    if ((array && (r = tools_read(&tools, array, NULL, "tools", problem)) < 0) ||
        (r = choice_read(&tools, field_find(json, "tool_choice"), rules, problem)) < 0)
        return r;
    /* Clients that name one tool expect one call. */
    parallel = rules->choice != TOOLS_NAMED;
    r = field_bool(json, "parallel_tool_calls", &parallel, problem);
    if (r < 0)
        return r;
    rules->single = !parallel;
    if (rules->choice == TOOLS_REQUIRED && !json_array_size(rules->allowed ? rules->allowed : list))
        return problem_set(
            problem, 400, "invalid_value", "tool_choice",
            "'tool_choice' demands a call, and 'tools' has no tool that can be called "
            "here.");
    if (json_array_size(list))
        conversation->tools = json_incref(list);
    return 0;
}
