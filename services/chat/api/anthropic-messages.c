/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the system prompt and the messages of Anthropic's Messages API into a conversation.
 *
 * A message of the user may have results of tools between its texts: each result becomes a message
 * of a tool, and the texts between two results become a message of the user. Consecutive messages
 * of the user become one message, as in Anthropic's API. Consecutive messages of the assistant
 * become one message, too. Text blocks of the user and of the system are joined by line feeds. Text
 * blocks of the assistant are joined without a separator, because they were parts of one text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "chat/canonical.h"
#include "chat/text-run.h"
#include "common/wire/fields.h"
#include "core/str.h"

#define MESSAGES_MAX 65536

struct reader {
    const struct anthropic_rules *rules;
    struct conversation *c;
    json_t *calls;                   /* names of tools, by the ids of their calls */
    struct text_run text, reasoning; /* extend the last message */
    struct problem *problem;
};

static const char *const text_fields[] = {"type", "text", "cache_control", "citations", NULL};
static const char *const document_fields[] = {"type",      "source",        "title", "context",
                                              "citations", "cache_control", NULL};
static const char *const result_fields[] = {"type",          "tool_use_id",  "content", "is_error",
                                            "cache_control", "toolset_name", NULL};
static const char *const call_fields[] = {"type",          "id",     "name",         "input",
                                          "cache_control", "caller", "toolset_name", NULL};
static const char *const thinking_fields[] = {"type", "thinking", "signature", NULL};
static const char *const redacted_fields[] = {"type", "data", NULL};

static int no_memory(struct reader *reader, int r)
{
    return r < 0 ? problem_no_memory(reader->problem) : 0;
}

/* Appends @text. A line feed separates it from earlier texts. */
static int lines_add(struct str *lines, const json_t *text)
{
    const int r = lines->len ? str_putc(lines, '\n') : 0;

    return r < 0 ? r : str_append(lines, json_string_value(text), json_string_length(text));
}

static int block_type(struct reader *reader, json_t *block, const char *path, json_t **ret_type)
{
    if (!json_is_object(block))
        return field_wrong_type(path, "an object", block, reader->problem);
    return anthropic_need_string(block, path, "type", ret_type, reader->problem);
}

static int block_refuse(struct reader *reader, const json_t *type, const char *path)
{
    return problem_set(reader->problem, 400, "unsupported_content", path,
                       "Blocks of the type \"%.40s\" ('%s') are not supported here.",
                       json_string_value(type), path);
}

static int text_block_read(struct reader *reader, json_t *block, const char *path,
                           json_t **ret_text)
{
    return anthropic_known(block, path, text_fields, reader->problem) < 0
               ? -EINVAL
               : anthropic_need_string(block, path, "text", ret_text, reader->problem);
}

/* Reads an array that has only text blocks. */
static int text_blocks_read(struct reader *reader, json_t *blocks, const char *path,
                            struct str *out)
{
    json_t *block, *type, *text;
    char param[ANTHROPIC_PATH];
    size_t i;

    json_array_foreach(blocks, i, block)
    {
        anthropic_item(param, path, i);
        if (block_type(reader, block, param, &type) < 0)
            return -EINVAL;
        if (!field_is(type, "text"))
            return block_refuse(reader, type, param);
        if (text_block_read(reader, block, param, &text) < 0)
            return -EINVAL;
        if (lines_add(out, text) < 0)
            return no_memory(reader, -ENOMEM);
    }
    return 0;
}

/* Reads the source of a document, which has to be text. */
static int source_read(struct reader *reader, json_t *source, const char *path, struct str *out)
{
    static const char *const text_names[] = {"type", "media_type", "data", NULL};
    static const char *const content_names[] = {"type", "content", NULL};
    json_t *type, *text;
    char param[ANTHROPIC_PATH];

    if (!json_is_object(source))
        return problem_set(reader->problem, 400, "missing_field", path, "'%s' must be an object.",
                           path);
    if (anthropic_need_string(source, path, "type", &type, reader->problem) < 0)
        return -EINVAL;
    if (field_is(type, "text")) {
        if (anthropic_known(source, path, text_names, reader->problem) < 0 ||
            anthropic_need_string(source, path, "data", &text, reader->problem) < 0)
            return -EINVAL;
        return no_memory(reader, lines_add(out, text));
    }
    if (!field_is(type, "content"))
        return problem_set(reader->problem, 400, "unsupported_content", path,
                           "Documents from a source of the type \"%.40s\" ('%s') are not supported "
                           "here: only text is supported.",
                           json_string_value(type), path);
    if (anthropic_known(source, path, content_names, reader->problem) < 0)
        return -EINVAL;
    text = field_find(source, "content");
    if (json_is_string(text))
        return no_memory(reader, lines_add(out, text));
    anthropic_path(param, path, "content");
    if (!json_is_array(text))
        return problem_set(reader->problem, 400, "invalid_type", param,
                           "'%s' must be a string or an array of text blocks.", param);
    return text_blocks_read(reader, text, param, out);
}

/* Reads a document as text: its title, its context and its contents. */
static int document_read(struct reader *reader, json_t *block, const char *path, struct str *out)
{
    json_t *citations = field_find(block, "citations"), *title, *context;
    char param[ANTHROPIC_PATH];

    anthropic_path(param, path, "citations");
    if (anthropic_known(block, path, document_fields, reader->problem) < 0 ||
        anthropic_string(block, path, "title", &title, reader->problem) < 0 ||
        anthropic_string(block, path, "context", &context, reader->problem) < 0)
        return -EINVAL;
    if (json_is_true(json_object_get(citations, "enabled")))
        return problem_set(reader->problem, 400, "unsupported_parameter", param,
                           "Unsupported parameter: '%s': answers have no citations here.", param);
    if ((title && lines_add(out, title) < 0) || (context && lines_add(out, context) < 0))
        return no_memory(reader, -ENOMEM);
    anthropic_path(param, path, "source");
    return source_read(reader, field_find(block, "source"), param, out);
}

/* Reads a text or a document. */
static int passage_read(struct reader *reader, json_t *block, const json_t *type, const char *path,
                        struct str *out)
{
    json_t *text;

    if (field_is(type, "document"))
        return document_read(reader, block, path, out);
    if (!field_is(type, "text"))
        return block_refuse(reader, type, path);
    return text_block_read(reader, block, path, &text) < 0
               ? -EINVAL
               : no_memory(reader, lines_add(out, text));
}

/* Appends a message. NULL: out of memory. */
static struct message *reader_add(struct reader *reader, enum message_role role)
{
    struct message *m = text_run_end(&reader->text) < 0 || text_run_end(&reader->reasoning) < 0
                            ? NULL
                            : conversation_add(reader->c);

    if (m)
        m->role = role;
    return m;
}

/* Returns the last message if it has @role, else a new one. NULL: out of memory. */
static struct message *reader_message(struct reader *reader, enum message_role role)
{
    struct conversation *c = reader->c;
    struct message *m = c->n_messages ? &c->messages[c->n_messages - 1] : NULL;

    return m && m->role == role ? m : reader_add(reader, role);
}

/* Adds @text to a message of the user. Takes over @text, which is NULL if memory ran out before. */
static int user_add(struct reader *reader, json_t *text)
{
    struct message *m = text ? reader_message(reader, ROLE_USER) : NULL;
    const int r = m ? text_run_add(&reader->text, &m->text, "\n", text) : -ENOMEM;

    json_decref(text);
    return no_memory(reader, r);
}

/* Adds the collected texts as a message of the user, and empties @lines. */
static int user_flush(struct reader *reader, struct str *lines)
{
    int r = 0;

    if (lines->len)
        r = user_add(reader, json_stringn_nocheck(lines->data, lines->len));
    str_clear(lines);
    return r;
}

/* Reads the content of a tool's result. */
static int result_content_read(struct reader *reader, json_t *block, const char *path,
                               struct str *out)
{
    json_t *content = field_find(block, "content"), *part, *type;
    char param[ANTHROPIC_PATH], inner[ANTHROPIC_PATH];
    size_t i;

    anthropic_path(param, path, "content");
    if (!content)
        return 0;
    if (json_is_string(content))
        return no_memory(reader,
                         str_append(out, json_string_value(content), json_string_length(content)));
    if (!json_is_array(content))
        return field_wrong_type(param, "a string or an array of blocks", content, reader->problem);
    json_array_foreach(content, i, part)
    {
        anthropic_item(inner, param, i);
        if (block_type(reader, part, inner, &type) < 0 ||
            passage_read(reader, part, type, inner, out) < 0)
            return -EINVAL;
    }
    return 0;
}

static int result_add(struct reader *reader, json_t *id, const struct str *text, bool is_error)
{
    struct message *m = reader_add(reader, ROLE_TOOL);
    _cleanup_str_ struct str marked = {};

    if (!m || (is_error && (str_puts(&marked, "Error: ") < 0 ||
                            str_append(&marked, text->data ? text->data : "", text->len) < 0)))
        return no_memory(reader, -ENOMEM);
    if (is_error)
        text = &marked;
    m->call_id = json_incref(id);
    m->name = json_incref(json_object_get(reader->calls, json_string_value(id)));
    m->text = json_stringn_nocheck(text->data ? text->data : "", text->len);
    return no_memory(reader, m->text ? 0 : -ENOMEM);
}

static int result_read(struct reader *reader, json_t *block, const char *path)
{
    json_t *is_error = field_find(block, "is_error"), *id;
    _cleanup_str_ struct str text = {};
    char param[ANTHROPIC_PATH];

    if (anthropic_known(block, path, result_fields, reader->problem) < 0 ||
        anthropic_need_string(block, path, "tool_use_id", &id, reader->problem) < 0)
        return -EINVAL;
    anthropic_path(param, path, "is_error");
    if (is_error && !json_is_boolean(is_error))
        return field_wrong_type(param, "a boolean", is_error, reader->problem);
    anthropic_path(param, path, "tool_use_id");
    if (!json_object_get(reader->calls, json_string_value(id)))
        return problem_set(reader->problem, 400, "invalid_value", param,
                           "Invalid value for '%s': no earlier 'tool_use' block has the id "
                           "\"%.100s\".",
                           param, json_string_value(id));
    if (result_content_read(reader, block, path, &text) < 0)
        return -EINVAL;
    return result_add(reader, id, &text, json_is_true(is_error));
}

static int user_read(struct reader *reader, json_t *blocks, const char *path)
{
    _cleanup_str_ struct str lines = {};
    json_t *block, *type;
    char param[ANTHROPIC_PATH];
    size_t i;
    int r = 0;

    json_array_foreach(blocks, i, block)
    {
        anthropic_item(param, path, i);
        r = block_type(reader, block, param, &type);
        if (r == 0 && field_is(type, "tool_result")) {
            r = user_flush(reader, &lines);
            r = r < 0 ? r : result_read(reader, block, param);
        } else if (r == 0) {
            r = passage_read(reader, block, type, param, &lines);
        }
        if (r < 0)
            return r;
    }
    return user_flush(reader, &lines);
}

/* Reads a call of a tool. */
static int call_read(struct reader *reader, json_t *block, const char *path, struct message *m)
{
    json_t *input = field_find(block, "input"), *id, *name;
    char param[ANTHROPIC_PATH];

    if (anthropic_known(block, path, call_fields, reader->problem) < 0 ||
        anthropic_need_string(block, path, "id", &id, reader->problem) < 0 ||
        anthropic_need_string(block, path, "name", &name, reader->problem) < 0)
        return -EINVAL;
    anthropic_path(param, path, "input");
    if (!input)
        return problem_set(reader->problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_object(input))
        return field_wrong_type(param, "an object", input, reader->problem);
    if (json_object_set(reader->calls, json_string_value(id), name) < 0)
        return no_memory(reader, -ENOMEM);
    return no_memory(reader,
                     message_add_call(m, json_incref(id), json_incref(name), json_incref(input)));
}

static int thinking_read(struct reader *reader, json_t *block, const char *path, struct message *m)
{
    json_t *text, *signature;

    if (anthropic_known(block, path, thinking_fields, reader->problem) < 0 ||
        anthropic_need_string(block, path, "thinking", &text, reader->problem) < 0 ||
        anthropic_string(block, path, "signature", &signature, reader->problem) < 0)
        return -EINVAL;
    if (!json_string_length(text))
        return 0;
    return no_memory(reader, text_run_add(&reader->reasoning, &m->reasoning, "\n", text));
}

static int assistant_block_read(struct reader *reader, json_t *block, const char *path,
                                struct message *m)
{
    json_t *type, *text;

    if (block_type(reader, block, path, &type) < 0)
        return -EINVAL;
    if (field_is(type, "tool_use"))
        return call_read(reader, block, path, m);
    if (field_is(type, "thinking"))
        return thinking_read(reader, block, path, m);
    /* The block is skipped, because only the service that wrote its data can read it. */
    if (field_is(type, "redacted_thinking"))
        return anthropic_known(block, path, redacted_fields, reader->problem);
    if (!field_is(type, "text"))
        return block_refuse(reader, type, path);
    if (text_block_read(reader, block, path, &text) < 0)
        return -EINVAL;
    return no_memory(reader, text_run_add(&reader->text, &m->text, "", text));
}

static int assistant_read(struct reader *reader, json_t *content, const char *path)
{
    struct message *m = reader_message(reader, ROLE_ASSISTANT);
    json_t *block;
    char param[ANTHROPIC_PATH];
    size_t i;

    if (!m)
        return no_memory(reader, -ENOMEM);
    if (json_is_string(content))
        return no_memory(reader, text_run_add(&reader->text, &m->text, "", content));
    json_array_foreach(content, i, block)
    {
        anthropic_item(param, path, i);
        if (assistant_block_read(reader, block, param, m) < 0)
            return -EINVAL;
    }
    return 0;
}

/* Reads a system message in the middle of a conversation. */
static int system_message_read(struct reader *reader, json_t *content, const char *path)
{
    _cleanup_str_ struct str lines = {};
    json_t *text = json_incref(content), *rest;
    struct message *m;

    if (json_is_array(content)) {
        json_decref(text);
        if (text_blocks_read(reader, content, path, &lines) < 0)
            return -EINVAL;
        text = json_stringn_nocheck(lines.data ? lines.data : "", lines.len);
    }
    if (text && reader->rules->drops_countdown) {
        const int r = canonical_drop_countdown(text, &rest);

        json_decref(text);
        text = r < 0 ? NULL : rest;
    }
    if (text && !json_string_length(text)) {
        json_decref(text);
        return 0;
    }
    m = text ? reader_add(reader, ROLE_SYSTEM) : NULL;
    if (!m) {
        json_decref(text);
        return no_memory(reader, -ENOMEM);
    }
    m->text = text;
    return 0;
}

static int message_read(struct reader *reader, json_t *object, const char *path)
{
    static const char *const fields[] = {"role", "content", NULL};
    json_t *role, *content;
    char param[ANTHROPIC_PATH];

    if (!json_is_object(object))
        return field_wrong_type(path, "an object", object, reader->problem);
    if (anthropic_known(object, path, fields, reader->problem) < 0 ||
        anthropic_need_string(object, path, "role", &role, reader->problem) < 0)
        return -EINVAL;
    content = field_find(object, "content");
    anthropic_path(param, path, "content");
    if (!content)
        return problem_set(reader->problem, 400, "missing_field", param,
                           "Missing required parameter: '%s'.", param);
    if (!json_is_string(content) && !json_is_array(content))
        return field_wrong_type(param, "a string or an array of blocks", content, reader->problem);
    if (field_is(role, "assistant"))
        return assistant_read(reader, content, param);
    if (field_is(role, "system"))
        return system_message_read(reader, content, param);
    if (!field_is(role, "user")) {
        anthropic_path(param, path, "role");
        return problem_set(reader->problem, 400, "invalid_value", param,
                           "Invalid value for '%s': it must be \"user\", \"assistant\" or "
                           "\"system\".",
                           param);
    }
    return json_is_string(content) ? user_add(reader, json_incref(content))
                                   : user_read(reader, content, param);
}

/* Reads a block of the system prompt. */
static int system_block_read(struct reader *reader, json_t *block, const char *path, bool is_first,
                             struct str *out)
{
    json_t *type, *text, *rest;
    int r;

    if (block_type(reader, block, path, &type) < 0)
        return -EINVAL;
    if (!field_is(type, "text"))
        return block_refuse(reader, type, path);
    if (text_block_read(reader, block, path, &text) < 0)
        return -EINVAL;
    if (!reader->rules->drops_countdown)
        return no_memory(reader, lines_add(out, text));
    if (is_first && canonical_is_billing(text))
        return 0;
    r = canonical_drop_countdown(text, &rest);
    if (r < 0)
        return no_memory(reader, r);
    r = lines_add(out, rest);
    json_decref(rest);
    return no_memory(reader, r);
}

static int system_read(struct reader *reader, json_t *system)
{
    _cleanup_str_ struct str lines = {};
    struct message *m;
    json_t *block;
    char param[ANTHROPIC_PATH];
    size_t i;

    if (!system)
        return 0;
    if (!json_is_string(system) && !json_is_array(system))
        return field_wrong_type("system", "a string or an array of text blocks", system,
                                reader->problem);
    json_array_foreach(system, i, block)
    {
        anthropic_item(param, "system", i);
        if (system_block_read(reader, block, param, i == 0, &lines) < 0)
            return -EINVAL;
    }
    if (json_is_string(system) ? !json_string_length(system) : !lines.len)
        return 0;
    m = reader_add(reader, ROLE_SYSTEM);
    if (!m)
        return no_memory(reader, -ENOMEM);
    m->text =
        json_is_string(system) ? json_incref(system) : json_stringn_nocheck(lines.data, lines.len);
    return no_memory(reader, m->text ? 0 : -ENOMEM);
}

static int messages_read(struct reader *reader, json_t *messages)
{
    json_t *message;
    char path[ANTHROPIC_PATH];
    size_t i;

    if (!messages)
        return problem_set(reader->problem, 400, "missing_field", "messages",
                           "Missing required parameter: 'messages'.");
    if (field_check_array(messages, "messages", "an array of objects", MESSAGES_MAX,
                          reader->problem) < 0)
        return -EINVAL;
    if (!json_array_size(messages))
        return problem_set(reader->problem, 400, "empty_array", "messages",
                           "Invalid 'messages': an empty array; it needs one message at least.");
    json_array_foreach(messages, i, message)
    {
        anthropic_item(path, "messages", i);
        if (message_read(reader, message, path) < 0)
            return -EINVAL;
    }
    return 0;
}

int anthropic_messages_read(json_t *body, const struct anthropic_rules *rules,
                            struct conversation *c, struct problem *problem)
{
    struct reader reader = {.rules = rules, .c = c, .calls = json_object(), .problem = problem};
    int r = reader.calls ? 0 : problem_no_memory(problem);

    r = r < 0 ? r : system_read(&reader, field_find(body, "system"));
    r = r < 0 ? r : messages_read(&reader, field_find(body, "messages"));
    if (r == 0 && (text_run_end(&reader.text) < 0 || text_run_end(&reader.reasoning) < 0))
        r = problem_no_memory(problem);
    text_run_done(&reader.text);
    text_run_done(&reader.reasoning);
    json_decref(reader.calls);
    return r;
}
