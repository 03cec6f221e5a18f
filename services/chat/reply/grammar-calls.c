/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the grammar rules of calls, in the formats of the families of models. */
#include "chat/reply/grammar-calls.h"

#include <errno.h>
#include <string.h>

#include "chat/reply/arguments.h"
#include "chat/reply/grammar-members.h"

static const char *const gemma_quote = "<|\"|>";

/* Copies the definitions of the document @root into @schema, if references in @schema may need
 * them. */
static int schema_set_definitions(json_t *schema, json_t *root)
{
    static const char *const names[] = {"$defs", "definitions"};
    _cleanup_free_ char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);

    if (!text)
        return -ENOMEM;
    if (!strstr(text, "\"$ref\""))
        return 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *definitions = json_object_get(root, names[i]);

        if (definitions && !json_object_get(schema, names[i]) &&
            json_object_set(schema, names[i], definitions) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Returns the grammar of a custom tool's text if its syntax is @wanted; NULL: it is not. */
static const char *custom_grammar(const struct reply_tool *tool, const char *wanted)
{
    json_t *grammar = json_object_get(tool->input, "grammar");
    const char *syntax;

    if (!tool->is_custom)
        return NULL;
    grammar = grammar ? grammar : tool->input;
    syntax = json_string_value(json_object_get(grammar, "syntax"));
    if (!syntax || strcmp(syntax, wanted) != 0)
        return NULL;
    return json_string_value(json_object_get(grammar, "definition"));
}

/* Returns the schema of the arguments of a custom tool: its text is the argument `input`. */
static json_t *custom_schema(void)
{
    return json_pack("{s:s,s:{s:{s:s}},s:[s],s:b}", "type", "object", "properties", "input", "type",
                     "string", "required", "input", "additionalProperties", 0);
}

/* Writes the grammar of a custom tool's text. Returns false if any text is permitted. */
static bool put_custom(struct lark *l, const struct reply_tool *tool)
{
    const char *lark = custom_grammar(tool, "lark"), *regex = custom_grammar(tool, "regex");

    if (lark)
        lark_printf(l, "%%lark {\n%s\n} ", lark);
    else if (regex)
        lark_regex(l, regex);
    return lark || regex;
}

/* Writes the arguments of a custom tool, an object whose member `input` is the text. */
static void put_custom_arguments(struct lark *l, const struct reply_tool *tool)
{
    lark_puts(l, "\"{\\\"input\\\": \\\"\" %json_text {\n");
    if (custom_grammar(tool, "lark"))
        lark_puts(l, custom_grammar(tool, "lark"));
    else if (custom_grammar(tool, "regex"))
        lark_puts(l, "start: "), lark_regex(l, custom_grammar(tool, "regex"));
    else
        lark_puts(l, "start: /.*/s");
    lark_puts(l, "\n} \"\\\"}\" ");
}

json_t *grammar_arguments(const struct reply_tool *tool)
{
    json_t *schema;

    if (tool->is_custom)
        return custom_schema();
    schema = tool->parameters ? json_copy(tool->parameters) : json_object();
    /* Arguments are an object, even if the schema does not say so. */
    if (schema && !json_object_get(schema, "type") &&
        json_object_set_new(schema, "type", json_string("object")) < 0) {
        json_decref(schema);
        return NULL;
    }
    return schema;
}

static void put_arguments(struct lark *l, const struct reply_tool *tool)
{
    json_t *schema;

    if (tool->is_custom) {
        put_custom_arguments(l, tool);
        return;
    }
    schema = grammar_arguments(tool);
    if (schema)
        lark_json(l, schema);
    else if (!l->error)
        l->error = -ENOMEM;
    json_decref(schema);
}

static void put_name(struct lark *l, const struct reply_tool *tool)
{
    lark_text(l, tool->name, strlen(tool->name));
}

static void put_literal(struct lark *l, const char *text)
{
    lark_text(l, text, strlen(text));
}

static void put_tool_object(struct lark *l, const struct reply *reply,
                            const struct reply_tool *tool)
{
    _cleanup_str_ struct str text = {};

    if (str_printf(&text, "{\"name\": \"%s\", \"%s\": ", tool->name,
                   reply->format->argument_key ? reply->format->argument_key : "arguments") < 0) {
        l->error = l->error ? l->error : -ENOMEM;
        return;
    }
    lark_text(l, text.data, text.len);
    put_arguments(l, tool);
    put_literal(l, "}");
}

static void put_tool_named(struct lark *l, const struct reply *reply, const struct reply_tool *tool)
{
    const struct call_marks *m = &reply->format->marks;

    lark_marker(l, m->call);
    if (reply->format->ids == ID_KIMI) {
        put_literal(l, "functions.");
        put_name(l, tool);
        lark_puts(l, "\":\" /[0-9]{1,3}/ ");
    } else {
        put_name(l, tool);
    }
    put_literal(l, m->newline ? m->newline : "");
    lark_marker(l, m->name_end);
    put_literal(l, m->newline ? m->newline : "");
    put_arguments(l, tool);
    put_literal(l, m->newline ? m->newline : "");
    lark_marker(l, m->call_end);
}

/* Writes the expression of the value of one argument between markers. */
static void put_xml_value(struct lark *l, const struct reply_tool *tool, json_t *schema)
{
    const unsigned types = tool->is_custom ? VALUE_STRING : value_types(tool->parameters, schema);
    json_t *values = json_object_get(schema, "enum"), *copy;

    if (types == VALUE_STRING && json_array_size(values)) {
        lark_one_of(l, values);
    } else if (types & VALUE_STRING) {
        if (!put_custom(l, tool))
            lark_puts(l, "XML_TEXT ");
    } else if (types == VALUE_BOOLEAN) {
        lark_puts(l, "(\"true\" | \"false\" | \"True\" | \"False\") ");
    } else {
        copy = json_copy(schema);
        if (copy && schema_set_definitions(copy, tool->parameters) == 0)
            lark_json(l, copy);
        else if (!l->error)
            l->error = -ENOMEM;
        json_decref(copy);
    }
}

bool grammar_requires(json_t *parameters, const char *key)
{
    json_t *name;
    size_t i;

    json_array_foreach(json_object_get(parameters, "required"), i, name)
    {
        if (i == GRAMMAR_MAX_MEMBERS)
            break;
        if (json_is_string(name) && strcmp(json_string_value(name), key) == 0)
            return true;
    }
    return false;
}

static void put_xml_argument(struct lark *l, const struct reply *reply,
                             const struct reply_tool *tool, const char *key, json_t *schema)
{
    const struct call_marks *m = &reply->format->marks;
    const bool is_string = tool->is_custom || value_types(tool->parameters, schema) == VALUE_STRING;

    lark_marker(l, m->key);
    lark_text(l, key, strlen(key));
    lark_marker(l, m->key_end);
    if (m->typed)
        put_literal(l, is_string ? "true\">" : "false\">");
    if (m->value) {
        lark_puts(l, "\"\\n\"? ");
        lark_marker(l, m->value);
    }
    if (m->trims)
        put_literal(l, "\n");
    put_xml_value(l, tool, schema);
    if (m->trims)
        put_literal(l, "\n");
    lark_marker(l, m->value_end);
    lark_puts(l, "\"\\n\"? ");
}

static void put_tool_xml(struct lark *l, const struct reply *reply, const struct reply_tool *tool)
{
    const struct call_marks *m = &reply->format->marks;
    json_t *arguments = grammar_arguments(tool), *schema;
    const char *key;

    grammar_check_members(l, arguments);
    lark_marker(l, m->call);
    put_name(l, tool);
    lark_marker(l, m->name_end);
    lark_puts(l, "\"\\n\"? ");
    json_object_foreach(json_object_get(arguments, "properties"), key, schema)
    {
        bool optional;

        if (l->error)
            break;
        optional = !tool->is_custom && !grammar_requires(tool->parameters, key);

        lark_puts(l, optional ? "(" : "");
        put_xml_argument(l, reply, tool, key, schema);
        lark_puts(l, optional ? ")? " : "");
    }
    lark_marker(l, m->call_end);
    if (m->close)
        lark_puts(l, "\"\\n\"? ");
    json_decref(arguments);
}

static void put_tool_gemma(struct lark *l, const struct reply_tool *tool)
{
    json_t *arguments;

    put_literal(l, "call:");
    put_name(l, tool);
    if (custom_grammar(tool, "lark") || custom_grammar(tool, "regex")) {
        put_literal(l, "{input:");
        lark_marker(l, gemma_quote);
        put_custom(l, tool);
        lark_marker(l, gemma_quote);
        put_literal(l, "}");
        return;
    }
    arguments = grammar_arguments(tool);
    grammar_put_gemma(l, arguments);
    json_decref(arguments);
}

static void put_python_member(struct lark *l, json_t *root, const char *key, json_t *schema)
{
    json_t *copy = json_is_object(schema) ? json_copy(schema) : json_object();

    lark_text(l, key, strlen(key));
    put_literal(l, "=");
    if (copy && schema_set_definitions(copy, root) == 0)
        lark_json(l, copy);
    else if (!l->error)
        l->error = -ENOMEM;
    json_decref(copy);
}

static void put_tool_python(struct lark *l, const struct reply_tool *tool)
{
    json_t *arguments = grammar_arguments(tool);

    put_name(l, tool);
    put_literal(l, "(");
    if (tool->is_custom) {
        lark_puts(l, "\"input=\" %json {\"type\":\"string\"} \")\" ");
        json_decref(arguments);
        return;
    }
    grammar_put_members(l, arguments, arguments, "\", \"", put_python_member);
    put_literal(l, ")");
    json_decref(arguments);
}

static void put_tool_harmony(struct lark *l, const struct reply_tool *tool)
{
    lark_marker(l, "<|channel|>commentary to=functions.");
    put_name(l, tool);
    lark_puts(l, "(");
    lark_marker(l, " <|constrain|>json");
    lark_puts(l, "| \" json\")? ");
    lark_marker(l, "<|message|>");
    put_arguments(l, tool);
}

static void put_tool(struct lark *l, const struct reply *reply, const struct reply_tool *tool)
{
    switch (reply->format->body) {
    case BODY_OBJECT:
    case BODY_ARRAY:
        put_tool_object(l, reply, tool);
        break;
    case BODY_NAMED:
        put_tool_named(l, reply, tool);
        break;
    case BODY_XML:
        put_tool_xml(l, reply, tool);
        break;
    case BODY_GEMMA:
        put_tool_gemma(l, tool);
        break;
    case BODY_PYTHON:
        put_tool_python(l, tool);
        break;
    case BODY_HARMONY:
        put_tool_harmony(l, tool);
        break;
    }
}

/* Writes the rule `tool`, which is a call without the markers around all calls. */
static void put_tools(struct lark *l, const struct reply *reply)
{
    for (size_t i = 0; i < reply->n_tools; i++) {
        lark_printf(l, "tool_%zu: ", i);
        l->loose = !reply->tools[i].is_strict;
        put_tool(l, reply, &reply->tools[i]);
        lark_puts(l, "\n");
    }
    l->loose = false;
    lark_puts(l, "tool: ");
    for (size_t i = 0; i < reply->n_tools; i++)
        lark_printf(l, i ? "| tool_%zu " : "tool_%zu ", i);
    lark_puts(l, "\n");
    if (reply->format->body == BODY_GEMMA)
        lark_text_without(l, "GEMMA_TEXT", &gemma_quote, 1);
    if (reply->format->body == BODY_XML)
        lark_text_without(l, "XML_TEXT", &reply->format->marks.value_end, 1);
}

static void put_repeat(struct lark *l, const struct reply *reply, const char *separator)
{
    lark_puts(l, "tool ");
    if (!reply->single)
        lark_printf(l, "(%s tool)* ", separator);
}

/* Writes the rule `calls` for formats in which markers surround each call. */
static void put_surrounded(struct lark *l, const struct reply *reply, const char *newline)
{
    const struct call_marks *m = &reply->format->marks;

    lark_puts(l, "calls: call ");
    lark_printf(l, reply->single ? "\ncall: " : "(%s call)*\ncall: ", newline);
    lark_marker(l, m->open);
    lark_puts(l, newline);
    lark_puts(l, " tool ");
    lark_puts(l, newline);
    lark_puts(l, " ");
    lark_marker(l, m->close);
    lark_puts(l, "\n");
}

void grammar_put_calls(struct lark *l, const struct reply *reply)
{
    const struct reply_format *f = reply->format;
    const struct call_marks *m = &f->marks;

    put_tools(l, reply);
    if (f->body == BODY_HARMONY) {
        lark_puts(l, "calls: tool\n");
        return;
    }
    if (m->surrounds) {
        put_surrounded(l, reply, f->body == BODY_OBJECT || f->body == BODY_XML ? "\"\\n\"?" : "");
        return;
    }
    lark_puts(l, "calls: ");
    lark_marker(l, m->open);
    /* Tokenizers of SentencePiece put a space after the marker. */
    if (f->body == BODY_ARRAY || f->body == BODY_PYTHON)
        lark_puts(l, "\" \"? \"[\" ");
    put_literal(l, f->body == BODY_XML ? "\n" : "");
    put_repeat(l, reply,
               f->body == BODY_ARRAY || f->body == BODY_PYTHON ? "\", \""
               : f->body == BODY_OBJECT                        ? "\"; \""
                                                               : "\"\\n\"?");
    if (f->body == BODY_ARRAY || f->body == BODY_PYTHON)
        put_literal(l, "]");
    if (f->body != BODY_ARRAY && m->open)
        lark_marker(l, m->close);
    lark_puts(l, "\n");
}
