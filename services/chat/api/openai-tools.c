/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tools of a request in the format of OpenAI's chat API, and the rules that say which
 * tools may be called. */
#include <stdio.h>
#include <string.h>

#include "chat/api/openai-body.h"
#include "chat/reply/name.h"
#include "common/wire/fields.h"

#define TOOLS_MAX      1024
#define TOOLS_MAX_NAME 128

static int name_read(json_t *object, const char *path, json_t **ret_name, struct problem *problem)
{
    json_t *name = field_find(object, "name");
    char param[160];
    const char *text;

    snprintf(param, sizeof(param), "%s.name", path);
    if (!name)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_string(name))
        return field_wrong_type(param, "a string", name, problem);
    text = json_string_value(name);
    for (size_t i = 0; i < json_string_length(name); i++)
        if (!reply_is_name_byte(text[i]))
            return problem_set(problem, 400, "invalid_value", param,
                               "Invalid value for '%s': a name has only letters, digits and "
                               "\"_-.:/\".",
                               param);
    if (!json_string_length(name) || json_string_length(name) > TOOLS_MAX_NAME)
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': a name has 1 to %d characters.", param,
                           TOOLS_MAX_NAME);
    *ret_name = name;
    return 0;
}

static int string_check(json_t *object, const char *path, const char *name, struct problem *problem)
{
    json_t *value = field_find(object, name);
    char param[160];

    snprintf(param, sizeof(param), "%s.%s", path, name);
    return value && !json_is_string(value) ? field_wrong_type(param, "a string", value, problem)
                                           : 0;
}

static int function_check(json_t *function, const char *path, struct problem *problem)
{
    static const char *const names[] = {"name", "description", "parameters", "strict", NULL};
    json_t *parameters = field_find(function, "parameters");
    json_t *strict = field_find(function, "strict");
    char param[160];
    int r;

    snprintf(param, sizeof(param), "%s.", path);
    r = fields_known(function, param, names, problem);
    r = r < 0 ? r : string_check(function, path, "description", problem);
    if (r < 0)
        return r;
    snprintf(param, sizeof(param), "%s.parameters", path);
    if (parameters && !json_is_object(parameters))
        return field_wrong_type(param, "an object", parameters, problem);
    snprintf(param, sizeof(param), "%s.strict", path);
    if (strict && !json_is_boolean(strict))
        return field_wrong_type(param, "a boolean", strict, problem);
    return 0;
}

/* Checks the grammar of a custom tool's text. */
static int custom_grammar_check(json_t *grammar, const char *path, struct problem *problem)
{
    static const char *const names[] = {"syntax", "definition", NULL};
    json_t *syntax = field_find(grammar, "syntax"), *definition = field_find(grammar, "definition");
    char param[256];
    int r;

    snprintf(param, sizeof(param), "%s.", path);
    if (!json_is_object(grammar))
        return problem_set(problem, 400, "missing_field", path,
                           "Missing required parameter: '%s', an object.", path);
    if ((r = fields_known(grammar, param, names, problem)) < 0)
        return r;
    snprintf(param, sizeof(param), "%s.syntax", path);
    if (!field_is(syntax, "lark") && !field_is(syntax, "regex"))
        return problem_set(problem, 400, "invalid_value", param,
                           "'%s' must be \"lark\" or \"regex\".", param);
    snprintf(param, sizeof(param), "%s.definition", path);
    if (!json_is_string(definition))
        return problem_set(problem, 400, "missing_field", param, "'%s' must be a string.", param);
    return 0;
}

static int custom_check(json_t *custom, const char *path, struct problem *problem)
{
    static const char *const names[] = {"name", "description", "format", NULL};
    static const char *const format_names[] = {"type", "grammar", NULL};
    json_t *format = field_find(custom, "format");
    char param[160];
    int r;

    snprintf(param, sizeof(param), "%s.", path);
    r = fields_known(custom, param, names, problem);
    r = r < 0 ? r : string_check(custom, path, "description", problem);
    if (r < 0 || !format)
        return r;
    snprintf(param, sizeof(param), "%s.format", path);
    if (!json_is_object(format))
        return field_wrong_type(param, "an object", format, problem);
    snprintf(param, sizeof(param), "%s.format.", path);
    if ((r = fields_known(format, param, format_names, problem)) < 0)
        return r;
    if (field_is(json_object_get(format, "type"), "text"))
        return 0;
    snprintf(param, sizeof(param), "%s.format.type", path);
    if (!field_is(json_object_get(format, "type"), "grammar"))
        return problem_set(problem, 400, "invalid_value", param,
                           "'%s' must be \"text\" or \"grammar\".", param);
    snprintf(param, sizeof(param), "%s.format.grammar", path);
    return custom_grammar_check(field_find(format, "grammar"), param, problem);
}

/* Checks one tool, and sets *ret_name to its name. */
static int tool_check(json_t *tool, size_t i, json_t **ret_name, struct problem *problem)
{
    static const char *const function_names[] = {"type", "function", NULL};
    static const char *const custom_names[] = {"type", "custom", NULL};
    json_t *type = field_find(tool, "type"), *spec;
    const bool custom = field_is(type, "custom");
    char path[48], param[64];
    int r;

    snprintf(path, sizeof(path), "tools[%zu]", i);
    if (!json_is_object(tool))
        return field_wrong_type(path, "an object", tool, problem);
    snprintf(param, sizeof(param), "%s.type", path);
    if (!type)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!custom && !field_is(type, "function"))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': it must be \"function\" or \"custom\".", param);
    snprintf(param, sizeof(param), "%s.", path);
    if ((r = fields_known(tool, param, custom ? custom_names : function_names, problem)) < 0)
        return r;
    snprintf(param, sizeof(param), "%s.%s", path, custom ? "custom" : "function");
    spec = field_find(tool, custom ? "custom" : "function");
    if (!spec)
        return problem_set(problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_object(spec))
        return field_wrong_type(param, "an object", spec, problem);
    r = name_read(spec, param, ret_name, problem);
    if (r < 0)
        return r;
    return custom ? custom_check(spec, param, problem) : function_check(spec, param, problem);
}

/* Checks all tools, and adds their names to the object @names as keys. */
static int tools_check(json_t *tools, json_t *names, struct problem *problem)
{
    json_t *tool, *name = NULL;
    size_t i;
    int r;

    if ((r = field_check_array(tools, "tools", "an array", TOOLS_MAX, problem)) < 0)
        return r;
    json_array_foreach(tools, i, tool)
    {
        char param[64];

        r = tool_check(tool, i, &name, problem);
        if (r < 0)
            return r;
        snprintf(param, sizeof(param), "tools[%zu]", i);
        if (json_object_get(names, json_string_value(name)))
            return problem_set(problem, 400, "invalid_value", param,
                               "'%s' has the same name as an earlier tool: \"%.60s\".", param,
                               json_string_value(name));
        if (json_object_set_new(names, json_string_value(name), json_true()) < 0)
            return problem_no_memory(problem);
    }
    return 0;
}

/* Reads a reference {"type": "function", "function": {"name": …}} to one of the tools. */
static int reference_read(json_t *object, const char *path, json_t *names, json_t **ret_name,
                          struct problem *problem)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    const bool custom = type && strcmp(type, "custom") == 0;
    char param[160];
    json_t *spec;
    int r;

    snprintf(param, sizeof(param), "%s.type", path);
    if (!type || (!custom && strcmp(type, "function") != 0))
        return problem_set(problem, 400, "invalid_value", param,
                           "Invalid value for '%s': it must be \"function\" or \"custom\".", param);
    snprintf(param, sizeof(param), "%s.%s", path, custom ? "custom" : "function");
    /* Some clients put the name next to the type, as the Responses API does. */
    spec = field_find(object, custom ? "custom" : "function");
    r = name_read(spec ? spec : object, spec ? param : path, ret_name, problem);
    if (r < 0)
        return r;
    if (!json_object_get(names, json_string_value(*ret_name)))
        return problem_set(problem, 400, "invalid_value", path,
                           "Invalid value for '%s': no tool has the name \"%.60s\".", path,
                           json_string_value(*ret_name));
    return 0;
}

static int allowed_read(json_t *choice, json_t *names, struct tool_rules *rules,
                        struct problem *problem)
{
    json_t *allowed = field_find(choice, "allowed_tools"), *tools, *tool, *mode, *name = NULL;
    size_t i;
    int r;

    allowed = allowed ? allowed : choice;
    tools = field_find(allowed, "tools");
    mode = field_find(allowed, "mode");
    if (!json_array_size(tools))
        return problem_set(problem, 400, "invalid_value", "tool_choice.allowed_tools.tools",
                           "'tool_choice.allowed_tools.tools' must be an array of tools.");
    if (mode && !field_is(mode, "auto") && !field_is(mode, "required"))
        return problem_set(problem, 400, "invalid_value", "tool_choice.allowed_tools.mode",
                           "'tool_choice.allowed_tools.mode' must be \"auto\" or \"required\".");
    rules->choice = field_is(mode, "required") ? TOOLS_REQUIRED : TOOLS_AUTO;
    rules->allowed = json_array();
    json_array_foreach(tools, i, tool)
    {
        char path[64];

        snprintf(path, sizeof(path), "tool_choice.allowed_tools.tools[%zu]", i);
        r = reference_read(tool, path, names, &name, problem);
        if (r < 0)
            return r;
        if (json_array_append(rules->allowed, name) < 0)
            return problem_no_memory(problem);
    }
    return 0;
}

static int choice_read(json_t *choice, json_t *names, struct tool_rules *rules,
                       struct problem *problem)
{
    static const char *const words[] = {
        [TOOLS_AUTO] = "auto", [TOOLS_NONE] = "none", [TOOLS_REQUIRED] = "required"};
    json_t *name = NULL;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (field_is(choice, words[i])) {
            rules->choice = (enum tool_choice)i;
            return 0;
        }
    if (json_is_string(choice))
        return problem_set(problem, 400, "invalid_value", "tool_choice",
                           "Invalid value for 'tool_choice': it must be \"none\", \"auto\", "
                           "\"required\" or an object.");
    if (!json_is_object(choice))
        return field_wrong_type("tool_choice", "a string or an object", choice, problem);
    if (field_is(json_object_get(choice, "type"), "allowed_tools"))
        return allowed_read(choice, names, rules, problem);
    r = reference_read(choice, "tool_choice", names, &name, problem);
    if (r < 0)
        return r;
    rules->choice = TOOLS_NAMED;
    rules->name = json_incref(name);
    return 0;
}

/* Refuses the older fields that `tools` replaced, if they would have an effect. */
static int legacy_check(json_t *body, struct problem *problem)
{
    json_t *value = field_find(body, "function_call");

    if (json_array_size(field_find(body, "functions")))
        return problem_set(problem, 400, "unsupported_parameter", "functions",
                           "Unsupported parameter: 'functions' is not supported here; use "
                           "'tools'.");
    if (value && !field_is(value, "none") && !field_is(value, "auto"))
        return problem_set(problem, 400, "unsupported_parameter", "function_call",
                           "Unsupported value: 'function_call' must be \"none\" or \"auto\"; use "
                           "'tool_choice'.");
    return 0;
}

int openai_tools_read(json_t *body, struct tool_rules *rules, struct conversation *conversation,
                      struct problem *problem)
{
    json_t *tools = field_find(body, "tools"), *choice = field_find(body, "tool_choice");
    json_t *names = json_object();
    bool parallel;
    int r = names ? legacy_check(body, problem) : problem_no_memory(problem);

    if (r == 0 && tools)
        r = tools_check(tools, names, problem);
    if (r == 0 && choice)
        r = choice_read(choice, names, rules, problem);
    if (r == 0 && !json_array_size(tools) && rules->choice == TOOLS_REQUIRED)
        r = problem_set(problem, 400, "invalid_value", "tool_choice",
                        "'tool_choice' is only possible with 'tools'.");
    /* Clients that name one tool expect one call. */
    parallel = rules->choice != TOOLS_NAMED;
    r = r < 0 ? r : field_bool(body, "parallel_tool_calls", &parallel, problem);
    rules->single = !parallel;
    if (r >= 0 && json_array_size(tools))
        conversation->tools = json_incref(tools);
    json_decref(names);
    return r < 0 ? r : 0;
}
