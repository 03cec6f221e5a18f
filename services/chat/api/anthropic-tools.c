/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tools of Anthropic's Messages API, and the choice among them.
 *
 * The tools become tools in OpenAI's format, which chat templates expect. A tool with a schema may
 * have the type "custom" or no type. Tools of Anthropic that the client runs have no schema in the
 * request. This file has the schemas of the tools for files and for the shell. Tools that
 * Anthropic's servers run are refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "common/wire/fields.h"
#include "core/text.h"

#define TOOLS_MAX     1024
#define TOOL_NAME_MAX 128

static const char *const tool_fields[] = {
    "type",   "name",          "description",     "input_schema",   "cache_control",
    "strict", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming",
    NULL,
};
static const char *const client_tool_fields[] = {
    "type",           "name", "cache_control", "strict", "defer_loading", "allowed_callers",
    "max_characters", NULL,
};

/* Tools that the client runs. The type of such a tool determines its schema. */
static const struct client_tool {
    const char *types; /* the types of this tool begin with this text */
    const char *text;  /* description and parameters of the function */
} client_tools[] = {
    {"bash_20",
     "{\"description\":\"Runs a command in a shell whose state is kept between calls.\","
     "\"parameters\":{\"type\":\"object\",\"properties\":{"
     "\"command\":{\"type\":\"string\",\"description\":\"The command.\"},"
     "\"restart\":{\"type\":\"boolean\",\"description\":\"True starts the shell anew.\"}}}}"},
    {"text_editor_20",
     "{\"description\":\"Views, creates and edits files.\",\"parameters\":{\"type\":\"object\","
     "\"properties\":{\"command\":{\"type\":\"string\",\"enum\":[\"view\",\"create\","
     "\"str_replace\",\"insert\"]},"
     "\"path\":{\"type\":\"string\",\"description\":\"Absolute path of the file or directory.\"},"
     "\"file_text\":{\"type\":\"string\",\"description\":\"create: the whole text.\"},"
     "\"old_str\":{\"type\":\"string\",\"description\":\"str_replace: text that is in the file "
     "once.\"},"
     "\"new_str\":{\"type\":\"string\",\"description\":\"str_replace: the new text.\"},"
     "\"insert_line\":{\"type\":\"integer\",\"description\":\"insert: the line after which the "
     "text is inserted; 0: at the beginning.\"},"
     "\"insert_text\":{\"type\":\"string\",\"description\":\"insert: the text.\"},"
     "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"description\":"
     "\"view: the first and the last line.\"}},\"required\":[\"command\",\"path\"]}}"},
};

static const struct client_tool *tool_of_client(const json_t *type)
{
    for (size_t i = 0; type && i < ARRAY_SIZE(client_tools); i++)
        if (text_starts_with(json_string_value(type), client_tools[i].types))
            return &client_tools[i];
    return NULL;
}

static int tool_check_name(json_t *name, const char *path, struct problem *problem)
{
    const char *s = json_string_value(name);
    const size_t len = json_string_length(name);

    if (len && len <= TOOL_NAME_MAX &&
        strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == len)
        return 0;
    return problem_set(problem, 400, "invalid_value", path,
                       "Invalid value for '%s.name': a name has 1 to %d letters, digits, '_' or "
                       "'-'.",
                       path, TOOL_NAME_MAX);
}

/* Checks the fields of a tool that are accepted but have no effect. `defer_loading`, for example,
 * changes nothing, because the model knows all tools from the beginning. */
static int tool_check_accepted(json_t *tool, const char *path, struct problem *problem)
{
    static const char *const flags[] = {"strict", "defer_loading", "eager_input_streaming"};
    json_t *callers = field_find(tool, "allowed_callers"), *caller;
    char param[ANTHROPIC_PATH];
    size_t k;

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        json_t *flag = field_find(tool, flags[i]);

        anthropic_path(param, path, flags[i]);
        if (flag && !json_is_boolean(flag))
            return field_wrong_type(param, "a boolean", flag, problem);
    }
    anthropic_path(param, path, "allowed_callers");
    if (callers && !json_is_array(callers))
        return field_wrong_type(param, "an array", callers, problem);
    json_array_foreach(callers, k, caller) if (!field_is(caller, "direct")) return problem_set(
        problem, 400, "unsupported_value", param,
        "Unsupported value in '%s': only \"direct\" is possible, because code is not executed "
        "here.",
        param);
    return 0;
}

/* Makes the function of a tool that has a schema. */
static int tool_read_custom(json_t *tool, const char *path, json_t **ret_function,
                            struct problem *problem)
{
    json_t *schema = field_find(tool, "input_schema"), *name, *description;
    char param[ANTHROPIC_PATH];

    anthropic_path(param, path, "input_schema");
    if (anthropic_known(tool, path, tool_fields, problem) < 0 ||
        anthropic_need_string(tool, path, "name", &name, problem) < 0 ||
        anthropic_string(tool, path, "description", &description, problem) < 0)
        return -EINVAL;
    if (!schema)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_object(schema))
        return field_wrong_type(param, "an object", schema, problem);
    *ret_function = json_pack("{s:O, s:O*, s:O, s:O*}", "name", name, "description", description,
                              "parameters", schema, "strict", field_find(tool, "strict"));
    return *ret_function ? 0 : problem_no_memory(problem);
}

/* Makes the function of a tool whose type determines its schema. */
static int tool_read_client(json_t *tool, const struct client_tool *known, const char *path,
                            json_t **ret_function, struct problem *problem)
{
    json_t *name, *function;

    if (anthropic_known(tool, path, client_tool_fields, problem) < 0 ||
        anthropic_need_string(tool, path, "name", &name, problem) < 0)
        return -EINVAL;
    function = json_loads(known->text, 0, NULL);
    if (!function || json_object_set(function, "name", name) < 0) {
        json_decref(function);
        return problem_no_memory(problem);
    }
    *ret_function = function;
    return 0;
}

static int tool_read(json_t *tool, const char *path, json_t **ret_function, struct problem *problem)
{
    const struct client_tool *known;
    json_t *type;

    if (!json_is_object(tool))
        return field_wrong_type(path, "an object", tool, problem);
    if (anthropic_string(tool, path, "type", &type, problem) < 0 ||
        tool_check_accepted(tool, path, problem) < 0)
        return -EINVAL;
    if (!type || field_is(type, "custom"))
        return tool_read_custom(tool, path, ret_function, problem);
    known = tool_of_client(type);
    if (known)
        return tool_read_client(tool, known, path, ret_function, problem);
    return problem_set(problem, 400, "unsupported_value", path,
                       "Tools of the type \"%.60s\" ('%s.type') are not offered here: a tool needs "
                       "an 'input_schema', and the client runs it.",
                       json_string_value(type), path);
}

/* Adds a tool to the tools of the conversation. Takes over @function. */
static int tool_add(struct conversation *c, json_t *names, json_t *function, const char *path,
                    struct problem *problem)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *tool;

    if (tool_check_name(json_object_get(function, "name"), path, problem) < 0) {
        json_decref(function);
        return -EINVAL;
    }
    if (json_object_get(names, name)) {
        problem_set(problem, 400, "invalid_value", path,
                    "Invalid value for '%s.name': another tool has the name \"%.128s\" too.", path,
                    name);
        json_decref(function);
        return -EINVAL;
    }
    if (json_object_set_new(names, name, json_true()) < 0) {
        json_decref(function);
        return problem_no_memory(problem);
    }
    tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
    return !tool || json_array_append_new(c->tools, tool) < 0 ? problem_no_memory(problem) : 0;
}

/* Reads the tools. Adds their names to the object @names as keys. */
static int tools_read(json_t *tools, struct conversation *c, json_t *names, struct problem *problem)
{
    json_t *tool, *function = NULL;
    char path[ANTHROPIC_PATH];
    size_t i;

    if (field_check_array(tools, "tools", "an array", TOOLS_MAX, problem) < 0)
        return -EINVAL;
    if (!json_array_size(tools))
        return 0;
    c->tools = json_array();
    if (!c->tools)
        return problem_no_memory(problem);
    json_array_foreach(tools, i, tool)
    {
        anthropic_item(path, "tools", i);
        if (tool_read(tool, path, &function, problem) < 0 ||
            tool_add(c, names, function, path, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static int choice_read_name(json_t *choice, json_t *names, struct tool_rules *rules,
                            struct problem *problem)
{
    json_t *name;

    if (anthropic_need_string(choice, "tool_choice", "name", &name, problem) < 0)
        return -EINVAL;
    if (!json_object_get(names, json_string_value(name)))
        return problem_set(problem, 400, "invalid_value", "tool_choice.name",
                           "Invalid value for 'tool_choice.name': no tool has the name \"%.128s\".",
                           json_string_value(name));
    rules->choice = TOOLS_NAMED;
    rules->name = json_incref(name);
    return 0;
}

static int choice_read(json_t *choice, json_t *names, struct tool_rules *rules,
                       struct problem *problem)
{
    static const char *const fields[] = {"type", "name", "disable_parallel_tool_use", NULL};
    json_t *type, *single;

    if (!json_is_object(choice))
        return field_wrong_type("tool_choice", "an object", choice, problem);
    if (anthropic_known(choice, "tool_choice", fields, problem) < 0 ||
        anthropic_need_string(choice, "tool_choice", "type", &type, problem) < 0)
        return -EINVAL;
    single = field_find(choice, "disable_parallel_tool_use");
    if (single && !json_is_boolean(single))
        return field_wrong_type("tool_choice.disable_parallel_tool_use", "a boolean", single,
                                problem);
    /* Clients that name one tool expect one call. */
    rules->single = single ? json_is_true(single) : field_is(type, "tool");
    if (!field_is(type, "tool") && field_find(choice, "name"))
        return problem_set(problem, 400, "invalid_value", "tool_choice.name",
                           "'tool_choice.name' is only possible with the type \"tool\".");
    if (field_is(type, "tool"))
        return choice_read_name(choice, names, rules, problem);
    if (field_is(type, "any") && !json_object_size(names))
        return problem_set(problem, 400, "invalid_value", "tool_choice",
                           "'tool_choice' requires a call, but 'tools' has no tool.");
    if (field_is(type, "any"))
        rules->choice = TOOLS_REQUIRED;
    else if (field_is(type, "none"))
        rules->choice = TOOLS_NONE;
    else if (!field_is(type, "auto"))
        return problem_set(problem, 400, "invalid_value", "tool_choice.type",
                           "Invalid value for 'tool_choice.type': it must be \"auto\", \"any\", "
                           "\"tool\" or \"none\".");
    return 0;
}

int anthropic_tools_read(json_t *body, struct params *p, struct conversation *c,
                         struct problem *problem)
{
    json_t *tools = field_find(body, "tools"), *choice = field_find(body, "tool_choice");
    json_t *names = json_object();
    int r = names ? 0 : problem_no_memory(problem);

    if (r == 0 && tools)
        r = tools_read(tools, c, names, problem);
    if (r == 0 && choice)
        r = choice_read(choice, names, &p->tools, problem);
    json_decref(names);
    return r;
}
