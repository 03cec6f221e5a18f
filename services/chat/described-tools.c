/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tools, calls and results into a conversation in a form that a model can read. */
#include "chat/described-tools.h"

#include <errno.h>
#include <string.h>

#include "common/wire/json.h"

/* Writes the description of a custom tool, and the grammar that the tool's input must follow. */
static int custom_describe(json_t *custom, struct str *out)
{
    json_t *format = json_object_get(custom, "format");
    json_t *grammar = json_object_get(format, "grammar");
    const char *text = json_string_value(json_object_get(custom, "description"));
    const char *syntax, *definition;
    int r = text ? str_puts(out, text) : 0;

    grammar = grammar ? grammar : format;
    syntax = json_string_value(json_object_get(grammar, "syntax"));
    definition = json_string_value(json_object_get(grammar, "definition"));
    if (r == 0 && syntax && definition)
        r = str_printf(out, "%sThe input follows this %s:\n%s", out->len ? "\n" : "",
                       strcmp(syntax, "regex") == 0 ? "regular expression" : "Lark grammar",
                       definition);
    return r;
}

static json_t *custom_as_function(json_t *custom)
{
    _cleanup_str_ struct str text = {};

    if (custom_describe(custom, &text) < 0)
        return NULL;
    return json_pack("{s:s,s:{s:O,s:s,s:{s:s,s:{s:{s:s}},s:[s]}}}", "type", "function", "function",
                     "name", json_object_get(custom, "name"), "description",
                     text.data ? text.data : "", "parameters", "type", "object", "properties",
                     "input", "type", "string", "required", "input");
}

/* Adds an empty description and empty parameters if they are missing, because many templates fail
 * without them. */
static json_t *function_complete(json_t *tool)
{
    json_t *function = json_object_get(tool, "function"), *copy;

    if (json_object_get(function, "description") && json_object_get(function, "parameters"))
        return json_incref(tool);
    copy = json_copy(function);
    if (!json_is_string(json_object_get(copy, "description")))
        json_object_set_new(copy, "description", json_string(""));
    if (!json_is_object(json_object_get(copy, "parameters")))
        json_object_set_new(copy, "parameters",
                            json_pack("{s:s,s:{}}", "type", "object", "properties"));
    return json_pack("{s:s,s:o}", "type", "function", "function", copy);
}

json_t *tools_for_template(json_t *tools)
{
    json_t *all = json_array(), *tool;
    size_t i;
    int r = all ? 0 : -ENOMEM;

    json_array_foreach(tools, i, tool)
    {
        json_t *custom = json_object_get(tool, "custom");

        if (r == 0)
            r = json_array_append_new(all, custom ? custom_as_function(custom)
                                                  : function_complete(tool));
    }
    if (r == 0)
        return all;
    json_decref(all);
    return NULL;
}

static bool tools_have_custom(json_t *tools, json_t *name)
{
    json_t *tool;
    size_t i;

    json_array_foreach(tools, i, tool)
    {
        json_t *custom = json_object_get(tool, "custom");

        if (custom && json_equal(json_object_get(custom, "name"), name))
            return true;
    }
    return false;
}

int tools_rewrite_calls(struct conversation *c)
{
    for (size_t i = 0; i < c->n_messages; i++)
        for (size_t k = 0; k < c->messages[i].n_calls; k++) {
            struct tool_call *call = &c->messages[i].calls[k];
            json_t *object;

            if (!json_is_string(call->arguments) || !tools_have_custom(c->tools, call->name))
                continue;
            object = json_pack("{s:O}", "input", call->arguments);
            if (!object)
                return -ENOMEM;
            json_decref(call->arguments);
            call->arguments = object;
        }
    return 0;
}

static const char describe_head[] =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
    "provided with function signatures within <tools></tools> XML tags:\n<tools>";
static const char describe_tail[] =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
    "\"arguments\": <args-json-object>}\n</tool_call>";

static int describe_put_json(json_t *value, struct str *out)
{
    _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY);

    return text ? str_puts(out, text) : -ENOMEM;
}

/* Replaces the text of a message. */
static int describe_set_text(struct message *m, const struct str *text)
{
    json_t *string = json_stringn(text->data ? text->data : "", text->len);

    if (!string)
        return -ENOMEM;
    json_decref(m->text);
    m->text = string;
    return 0;
}

static int describe_put_text(const struct message *m, struct str *out)
{
    return m->text ? str_append(out, json_string_value(m->text), json_string_length(m->text)) : 0;
}

/* Adds the list of tools to the first message if that is a system message. Otherwise inserts a
 * system message with the list before it. */
static int describe_list(struct conversation *c, json_t *tools)
{
    _cleanup_str_ struct str text = {};
    const bool has_system = c->n_messages && c->messages[0].role == ROLE_SYSTEM;
    json_t *tool;
    size_t i;
    int r = 0;

    if (!has_system) {
        if (!conversation_add(c))
            return -ENOMEM;
        memmove(c->messages + 1, c->messages, (c->n_messages - 1) * sizeof(*c->messages));
        c->messages[0] = (struct message){.role = ROLE_SYSTEM};
    }
    r = describe_put_text(&c->messages[0], &text);
    r = r < 0 || !text.len ? r : str_puts(&text, "\n\n");
    r = r < 0 ? r : str_puts(&text, describe_head);
    json_array_foreach(tools, i, tool)
    {
        r = r < 0 ? r : str_putc(&text, '\n');
        r = r < 0 ? r : describe_put_json(tool, &text);
    }
    r = r < 0 ? r : str_puts(&text, describe_tail);
    return r < 0 ? r : describe_set_text(&c->messages[0], &text);
}

/* Writes the calls of a message after its text. */
static int describe_calls(struct message *m)
{
    _cleanup_str_ struct str text = {};
    int r = describe_put_text(m, &text);

    for (size_t i = 0; i < m->n_calls && r == 0; i++) {
        r = str_puts(&text, text.len ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
        r = r < 0 ? r : describe_put_json(m->calls[i].name, &text);
        r = r < 0 ? r : str_puts(&text, ", \"arguments\": ");
        if (r == 0 && m->calls[i].arguments)
            r = describe_put_json(m->calls[i].arguments, &text);
        else if (r == 0)
            r = str_puts(&text, "{}");
        r = r < 0 ? r : str_puts(&text, "}\n</tool_call>");
    }
    r = r < 0 ? r : describe_set_text(m, &text);
    for (size_t i = 0; i < m->n_calls && r == 0; i++) {
        json_decref(m->calls[i].id);
        json_decref(m->calls[i].name);
        json_decref(m->calls[i].arguments);
    }
    m->n_calls = r < 0 ? m->n_calls : 0;
    return r;
}

static int describe_put_result(const struct message *m, struct str *out)
{
    int r = str_puts(out, out->len ? "\n<tool_response>\n" : "<tool_response>\n");

    r = r < 0 ? r : describe_put_text(m, out);
    return r < 0 ? r : str_puts(out, "\n</tool_response>");
}

static bool describe_is_result(const struct message *m)
{
    return m->role == ROLE_TOOL || m->role == ROLE_FUNCTION;
}

/* Turns consecutive results into one message of the user, because many templates require
 * alternating roles. */
static int describe_results(struct conversation *c)
{
    _cleanup_str_ struct str text = {};
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < c->n_messages; i++) {
        struct message *m = &c->messages[i];

        if (!describe_is_result(m)) {
            c->messages[n++] = *m;
            continue;
        }
        r = r < 0 ? r : describe_put_result(m, &text);
        if (i + 1 < c->n_messages && describe_is_result(m + 1)) {
            message_done(m);
            continue;
        }
        r = r < 0 ? r : describe_set_text(m, &text);
        str_clear(&text);
        m->role = ROLE_USER;
        c->messages[n++] = *m;
    }
    c->n_messages = n;
    return r;
}

int tools_describe(struct conversation *c, bool may_call)
{
    int r = 0;

    for (size_t i = 0; i < c->n_messages && r == 0; i++)
        if (c->messages[i].n_calls)
            r = describe_calls(&c->messages[i]);
    r = r < 0 ? r : describe_results(c);
    if (r == 0 && may_call && json_array_size(c->tools))
        r = describe_list(c, c->tools);
    return r;
}
