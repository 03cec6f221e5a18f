/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the messages of a request, and writes them in the form that chat templates read. */
#include "chat/conversation.h"

#include <errno.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/array.h"

static const char *const role_names[N_ROLES] = {"system",    "developer", "user",
                                                "assistant", "tool",      "function"};

const char *message_role_name(enum message_role role)
{
    return role_names[role];
}

struct message *conversation_add(struct conversation *c)
{
    if (ARRAY_GROW(c->messages, c->messages_cap, c->n_messages + 1) < 0)
        return NULL;
    c->messages[c->n_messages] = (struct message){0};
    return &c->messages[c->n_messages++];
}

int message_add_call(struct message *m, json_t *id, json_t *name, json_t *arguments)
{
    struct tool_call *calls = realloc(m->calls, (m->n_calls + 1) * sizeof(*calls));

    if (!calls) {
        json_decref(id);
        json_decref(name);
        json_decref(arguments);
        return -ENOMEM;
    }
    m->calls = calls;
    m->calls[m->n_calls++] = (struct tool_call){id, name, arguments};
    return 0;
}

int message_parse_arguments(json_t *text, size_t *room, json_t **ret_arguments)
{
    _cleanup_json_ json_t *parsed = NULL;
    struct inf_err err = {};
    const int r =
        json_parse_within(json_string_value(text), json_string_length(text), room, &parsed, &err);

    if (r == -E2BIG || r == -ENOMEM)
        return r;
    *ret_arguments = json_incref(json_is_object(parsed) ? parsed : text);
    return 0;
}

int conversation_set(struct conversation *c, const char *name, json_t *value)
{
    if (!c->settings)
        c->settings = json_object();
    return json_object_set(c->settings, name, value) < 0 ? -ENOMEM : 0;
}

/* Writes ,"NAME":VALUE. */
static int put_field(struct str *out, const char *name, const json_t *value)
{
    int r = value ? str_printf(out, ",\"%s\":", name) : 0;

    if (r == 0 && value)
        r = json_put_string(out, json_string_value(value), json_string_length(value));
    return r;
}

static int put_call(const struct tool_call *call, struct str *out)
{
    _cleanup_free_ char *arguments = NULL;
    int r = str_puts(out, "{\"type\":\"function\"");

    r = r < 0 ? r : put_field(out, "id", call->id);
    r = r < 0 ? r : str_puts(out, ",\"function\":{\"name\":");
    r = r < 0 ? r
              : json_put_string(out, json_string_value(call->name), json_string_length(call->name));
    if (r == 0 && call->arguments) {
        arguments = json_dumps(call->arguments, JSON_COMPACT | JSON_ENCODE_ANY);
        r = arguments ? str_puts(out, ",\"arguments\":") : -ENOMEM;
        r = r < 0 ? r : str_puts(out, arguments);
    }
    return r < 0 ? r : str_puts(out, "}}");
}

static int put_calls(const struct message *m, struct str *out)
{
    int r = m->n_calls ? str_puts(out, ",\"tool_calls\":[") : 0;

    for (size_t i = 0; i < m->n_calls && r == 0; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : put_call(&m->calls[i], out);
    }
    return r < 0 || !m->n_calls ? r : str_putc(out, ']');
}

static int put_message(const struct message *m, const char *reasoning, struct str *out)
{
    int r = str_printf(out, "{\"role\":\"%s\",\"content\":", role_names[m->role]);

    r = r < 0 ? r
              : json_put_string(out, m->text ? json_string_value(m->text) : "",
                                m->text ? json_string_length(m->text) : 0);
    r = r < 0 ? r : put_field(out, "name", m->name);
    r = r < 0 ? r : put_field(out, "tool_call_id", m->call_id);
    r = r < 0 ? r : put_field(out, reasoning, m->reasoning);
    r = r < 0 ? r : put_calls(m, out);
    return r < 0 ? r : str_putc(out, '}');
}

int conversation_put_messages(const struct conversation *c, const char *reasoning, struct str *out)
{
    const size_t n = c->n_messages - (c->continues ? 1 : 0);
    int r = str_putc(out, '[');

    for (size_t i = 0; i < n && r == 0; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : put_message(&c->messages[i], reasoning, out);
    }
    return r < 0 ? r : str_putc(out, ']');
}

const struct message *conversation_continued(const struct conversation *c)
{
    return c->continues ? &c->messages[c->n_messages - 1] : NULL;
}

void message_done(struct message *m)
{
    for (size_t i = 0; i < m->n_calls; i++) {
        json_decref(m->calls[i].id);
        json_decref(m->calls[i].name);
        json_decref(m->calls[i].arguments);
    }
    free(m->calls);
    json_decref(m->text);
    json_decref(m->name);
    json_decref(m->call_id);
    json_decref(m->reasoning);
}

void conversation_done(struct conversation *c)
{
    for (size_t i = 0; i < c->n_messages; i++)
        message_done(&c->messages[i]);
    free(c->messages);
    json_decref(c->tools);
    json_decref(c->documents);
    json_decref(c->variables);
    json_decref(c->settings);
    *c = (struct conversation){0};
}
