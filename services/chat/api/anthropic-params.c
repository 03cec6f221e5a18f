/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of Anthropic's Messages API. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "common/wire/fields.h"

static const char *const body_fields[] = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "stop_sequences",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "output_format",
    "service_tier",
    "container",
    "context_management",
    "speed",
    "mcp_servers",
    "diagnostics",
    "inference_geo",
    "cache_control",
    "thread",
    NULL,
};

/* Fields that change nothing here, and the strings that they may have. */
static const struct {
    const char *name;
    const char *values[4];
} accepted[] = {
    {"service_tier", {"auto", "standard_only"}},
    {"speed", {"standard", "fast"}},
};

void anthropic_path(char out[ANTHROPIC_PATH], const char *prefix, const char *name)
{
    snprintf(out, ANTHROPIC_PATH, "%s%s%s", prefix, prefix[0] ? "." : "", name);
}

void anthropic_item(char out[ANTHROPIC_PATH], const char *prefix, size_t index)
{
    snprintf(out, ANTHROPIC_PATH, "%s[%zu]", prefix, index);
}

int anthropic_known(json_t *object, const char *prefix, const char *const *names,
                    struct problem *problem)
{
    json_t *control = field_find(object, "cache_control");
    char path[ANTHROPIC_PATH];

    anthropic_path(path, prefix, "");
    if (fields_known(object, path, names, problem) < 0)
        return -EINVAL;
    anthropic_path(path, prefix, "cache_control");
    return !control || json_is_object(control)
               ? 0
               : field_wrong_type(path, "an object", control, problem);
}

int anthropic_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                     struct problem *problem)
{
    json_t *value = field_find(object, name);
    char param[ANTHROPIC_PATH];

    anthropic_path(param, prefix, name);
    if (value && !json_is_string(value))
        return field_wrong_type(param, "a string", value, problem);
    *ret_value = value;
    return 0;
}

int anthropic_need_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                          struct problem *problem)
{
    char param[ANTHROPIC_PATH];

    if (anthropic_string(object, prefix, name, ret_value, problem) < 0)
        return -EINVAL;
    anthropic_path(param, prefix, name);
    return *ret_value ? 0
                      : problem_set(problem, 400, "missing_field", param,
                                    "Missing required parameter: '%s'.", param);
}

static int params_read_numbers(struct params *p, json_t *body, const struct anthropic_rules *rules,
                               struct problem *problem)
{
    double temperature = 0, top_p = 0;
    int64_t top_k = 0, max_tokens = 0;
    int has_temperature, has_top_p, has_top_k, has_max;

    if ((has_temperature = field_double(body, "temperature", 0, 1, &temperature, problem)) < 0 ||
        (has_top_p = field_double(body, "top_p", 0, 1, &top_p, problem)) < 0 ||
        (has_top_k = field_int(body, "top_k", -1, INT32_MAX, &top_k, problem)) < 0 ||
        (has_max = field_int(body, "max_tokens", 1, INT32_MAX, &max_tokens, problem)) < 0)
        return -EINVAL;
    if (!has_max && !rules->counts)
        return problem_set(problem, 400, "missing_field", "max_tokens",
                           "Missing required parameter: 'max_tokens'.");
    p->max_tokens = (uint32_t)max_tokens;
    if (has_temperature)
        p->sampling.temperature = (float)temperature;
    /* In the engine, 0 switches the filter off; in the API, 0 keeps only the most likely token. */
    if (has_top_p)
        p->sampling.top_p = top_p > 0 ? (float)top_p : 1e-9f;
    if (has_top_k)
        p->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    return 0;
}

static int params_read_stops(struct params *p, json_t *body, struct problem *problem)
{
    json_t *stops = field_find(body, "stop_sequences"), *stop;
    char param[ANTHROPIC_PATH];
    size_t i;

    if (stops && !json_is_array(stops))
        return field_wrong_type("stop_sequences", "an array of strings", stops, problem);
    if (json_array_size(stops) > PARAMS_MAX_STOPS)
        return problem_set(problem, 400, "invalid_value", "stop_sequences",
                           "'stop_sequences' has %zu strings; at most %d are possible.",
                           json_array_size(stops), PARAMS_MAX_STOPS);
    json_array_foreach(stops, i, stop)
    {
        anthropic_item(param, "stop_sequences", i);
        if (!json_is_string(stop))
            return field_wrong_type(param, "a string", stop, problem);
        if (!params_add_stop(p, stop))
            return problem_set(problem, 400, "invalid_value", param,
                               "Invalid value for '%s': an empty string.", param);
    }
    return 0;
}

/* Reads the budget of `thinking`, which only the type "enabled" has. */
static int thinking_read_budget(struct params *p, json_t *thinking, struct problem *problem)
{
    json_t *budget = field_find(thinking, "budget_tokens");

    if (!budget)
        return problem_set(problem, 400, "missing_field", "thinking.budget_tokens",
                           "Missing required parameter: 'thinking.budget_tokens'.");
    if (!json_is_integer(budget))
        return field_wrong_type("thinking.budget_tokens", "an integer", budget, problem);
    if (json_integer_value(budget) < 1)
        return problem_set(problem, 400, "invalid_value", "thinking.budget_tokens",
                           "Invalid value for 'thinking.budget_tokens': it is less than 1.");
    p->reasoning.budget = json_integer_value(budget);
    return 0;
}

static int thinking_read_display(json_t *thinking, struct anthropic_wishes *wishes,
                                 struct problem *problem)
{
    json_t *display;

    if (anthropic_string(thinking, "thinking", "display", &display, problem) < 0)
        return -EINVAL;
    wishes->hides_thinking = field_is(display, "omitted");
    if (!display || wishes->hides_thinking || field_is(display, "summarized"))
        return 0;
    return problem_set(problem, 400, "invalid_value", "thinking.display",
                       "Invalid value for 'thinking.display': it must be \"summarized\" or "
                       "\"omitted\".");
}

static int params_read_thinking(struct params *p, json_t *body, struct anthropic_wishes *wishes,
                                struct problem *problem)
{
    static const char *const names[] = {"type", "budget_tokens", "display", NULL};
    json_t *thinking = field_find(body, "thinking"), *type;

    p->reasoning.enabled = 0;
    if (!thinking)
        return 0;
    if (!json_is_object(thinking))
        return field_wrong_type("thinking", "an object", thinking, problem);
    if (anthropic_known(thinking, "thinking", names, problem) < 0 ||
        anthropic_need_string(thinking, "thinking", "type", &type, problem) < 0 ||
        thinking_read_display(thinking, wishes, problem) < 0)
        return -EINVAL;
    if (field_is(type, "enabled")) {
        p->reasoning.enabled = 1;
        return thinking_read_budget(p, thinking, problem);
    }
    if (field_find(thinking, "budget_tokens"))
        return problem_set(problem, 400, "invalid_value", "thinking.budget_tokens",
                           "'thinking.budget_tokens' is only possible with the type \"enabled\".");
    if (field_is(type, "disabled"))
        return 0;
    if (field_is(type, "adaptive")) {
        p->reasoning.enabled = -1;
        return 0;
    }
    return problem_set(problem, 400, "invalid_value", "thinking.type",
                       "Invalid value for 'thinking.type': it must be \"enabled\", \"adaptive\" or "
                       "\"disabled\".");
}

/* Reads the form that the answer must have. @path is the path of the object @format. */
static int params_read_format(struct params *p, json_t *format, const char *path,
                              const char *schema_path, struct problem *problem)
{
    static const char *const names[] = {"type", "schema", NULL};
    json_t *type, *schema;

    if (!format)
        return 0;
    if (!json_is_object(format))
        return field_wrong_type(path, "an object", format, problem);
    if (anthropic_known(format, path, names, problem) < 0 ||
        anthropic_need_string(format, path, "type", &type, problem) < 0)
        return -EINVAL;
    if (!field_is(type, "json_schema"))
        return problem_set(problem, 400, "invalid_value", path,
                           "Invalid value for '%s.type': it must be \"json_schema\".", path);
    schema = field_find(format, "schema");
    if (!schema)
        return problem_set(problem, 400, "missing_field", schema_path,
                           "Missing required parameter: '%s'.", schema_path);
    if (!json_is_object(schema))
        return field_wrong_type(schema_path, "an object", schema, problem);
    if (anthropic_bounds_restore(schema) < 0)
        return problem_no_memory(problem);
    json_decref(p->constraint.value);
    p->constraint = (struct constraint){CONSTRAINT_SCHEMA, json_incref(schema), schema_path};
    return 0;
}

static int params_read_output(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const names[] = {"effort", "format", NULL};
    static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};
    json_t *config = field_find(body, "output_config"), *effort;
    bool known = false;

    if (params_read_format(p, field_find(body, "output_format"), "output_format",
                           "output_format.schema", problem) < 0)
        return -EINVAL;
    if (!config)
        return 0;
    if (!json_is_object(config))
        return field_wrong_type("output_config", "an object", config, problem);
    if (anthropic_known(config, "output_config", names, problem) < 0 ||
        anthropic_string(config, "output_config", "effort", &effort, problem) < 0 ||
        params_read_format(p, field_find(config, "format"), "output_config.format",
                           "output_config.format.schema", problem) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_SIZE(efforts); i++)
        known = known || field_is(effort, efforts[i]);
    if (effort && !known)
        return problem_set(problem, 400, "invalid_value", "output_config.effort",
                           "Invalid value for 'output_config.effort': it must be \"low\", "
                           "\"medium\", \"high\", \"xhigh\" or \"max\".");
    p->reasoning.effort = json_incref(effort);
    return 0;
}

/* Checks the edits of the context. Only one type of edit is accepted: it keeps or drops thinking of
 * earlier turns. Such an edit has no effect here, because the chat template decides which thinking
 * is kept. */
static int params_read_context(json_t *body, struct problem *problem)
{
    static const char *const names[] = {"edits", NULL}, *const edit_names[] = {"type", "keep",
                                                                               NULL};
    json_t *context = field_find(body, "context_management"), *edits, *edit, *type;
    char param[ANTHROPIC_PATH];
    size_t i;

    if (!context)
        return 0;
    if (!json_is_object(context))
        return field_wrong_type("context_management", "an object", context, problem);
    if (anthropic_known(context, "context_management", names, problem) < 0)
        return -EINVAL;
    edits = field_find(context, "edits");
    if (edits && !json_is_array(edits))
        return field_wrong_type("context_management.edits", "an array", edits, problem);
    json_array_foreach(edits, i, edit)
    {
        anthropic_item(param, "context_management.edits", i);
        if (!json_is_object(edit))
            return field_wrong_type(param, "an object", edit, problem);
        if (anthropic_need_string(edit, param, "type", &type, problem) < 0)
            return -EINVAL;
        if (!field_is(type, "clear_thinking_20251015"))
            return problem_set(problem, 400, "unsupported_value", param,
                               "Edits of the type \"%.60s\" are not supported here ('%s').",
                               json_string_value(type), param);
        if (anthropic_known(edit, param, edit_names, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static int params_read_metadata(json_t *body, struct problem *problem)
{
    static const char *const names[] = {"user_id", NULL};
    json_t *metadata = field_find(body, "metadata"), *user;

    if (!metadata)
        return 0;
    if (!json_is_object(metadata))
        return field_wrong_type("metadata", "an object", metadata, problem);
    return anthropic_known(metadata, "metadata", names, problem) < 0
               ? -EINVAL
               : anthropic_string(metadata, "metadata", "user_id", &user, problem);
}

/* Checks the fields that are accepted but have no effect here. Refuses values that ask for
 * something that this service does not do. */
static int params_read_accepted(json_t *body, struct problem *problem)
{
    json_t *servers = field_find(body, "mcp_servers");
    json_t *diagnostics = field_find(body, "diagnostics");
    const char *text;

    for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
        bool known = false;
        int r;

        r = field_text(body, accepted[i].name, &text, problem);
        if (r < 0)
            return r;
        for (const char *const *value = accepted[i].values; r > 0 && *value; value++)
            known = known || strcmp(*value, text) == 0;
        if (r > 0 && !known)
            return problem_set(problem, 400, "unsupported_value", accepted[i].name,
                               "'%s' must be \"%s\" or \"%s\".", accepted[i].name,
                               accepted[i].values[0], accepted[i].values[1]);
    }
    if (field_text(body, "inference_geo", &text, problem) < 0)
        return -EINVAL;
    if (diagnostics && !json_is_object(diagnostics))
        return field_wrong_type("diagnostics", "an object", diagnostics, problem);
    /* This error code tells Anthropic's clients to send the whole conversation. */
    if (field_find(body, "thread"))
        return problem_set(problem, 400, "thread_unsupported_request", "thread",
                           "Unsupported parameter: 'thread': conversations are not kept here; send "
                           "all messages.");
    if (field_find(body, "container"))
        return problem_set(problem, 400, "unsupported_parameter", "container",
                           "Unsupported parameter: 'container': code is not executed here.");
    if (servers && !(json_is_array(servers) && !json_array_size(servers)))
        return problem_set(problem, 400, "unsupported_parameter", "mcp_servers",
                           "Unsupported parameter: 'mcp_servers': MCP servers are not called from "
                           "here; the client has to call them.");
    return params_read_context(body, problem);
}

int anthropic_body_read(json_t *body, const struct anthropic_rules *rules, struct params *p,
                        struct conversation *c, struct anthropic_wishes *wishes,
                        struct problem *problem)
{
    params_init(p);
    if (anthropic_known(body, "", body_fields, problem) < 0 ||
        field_text(body, "model", &p->model, problem) < 0 ||
        params_read_numbers(p, body, rules, problem) < 0 ||
        params_read_stops(p, body, problem) < 0 ||
        field_bool(body, "stream", &p->stream, problem) < 0 ||
        params_read_thinking(p, body, wishes, problem) < 0 ||
        params_read_output(p, body, problem) < 0 || params_read_metadata(body, problem) < 0 ||
        params_read_accepted(body, problem) < 0 || anthropic_tools_read(body, p, c, problem) < 0)
        return -EINVAL;
    return anthropic_messages_read(body, rules, c, problem) < 0
               ? -EINVAL
               : anthropic_prefill_read(body, p, c, problem);
}
