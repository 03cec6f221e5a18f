/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tools that an answer may call, and the tokens that its parser must see. */
#include "chat/reply/reply.h"

#include <errno.h>
#include <string.h>

#include "chat/reply/parser-state.h"

static bool rules_permit(const struct tool_rules *rules, json_t *name)
{
    json_t *allowed;
    size_t i;

    if (rules->choice == TOOLS_NONE)
        return false;
    if (rules->choice == TOOLS_NAMED)
        return json_equal(rules->name, name);
    if (!rules->allowed)
        return true;
    json_array_foreach(rules->allowed, i, allowed) if (json_equal(allowed, name)) return true;
    return false;
}

static void reply_add_tool(struct reply *reply, json_t *tool, size_t index,
                           const struct tool_rules *rules)
{
    json_t *custom = json_object_get(tool, "custom");
    json_t *spec = custom ? custom : json_object_get(tool, "function");
    json_t *name = json_object_get(spec, "name"), *parameters;

    if (!json_is_string(name) || !rules_permit(rules, name))
        return;
    parameters = json_object_get(spec, "parameters");
    reply->tools[reply->n_tools++] = (struct reply_tool){
        .name = json_string_value(name),
        .spec = json_incref(tool),
        .parameters = json_is_object(parameters) && !custom ? parameters : NULL,
        .input = custom ? json_object_get(custom, "format") : NULL,
        .index = index,
        .is_custom = custom != NULL,
        .is_strict = json_is_true(json_object_get(spec, "strict")),
    };
}

int reply_set_tools(struct reply *reply, json_t *tools, const struct tool_rules *rules)
{
    json_t *tool;
    size_t i;

    reply->choice = rules->choice;
    reply->single = rules->single;
    if (!json_array_size(tools))
        return 0;
    reply->tools = NEW(struct reply_tool, json_array_size(tools));
    if (!reply->tools)
        return -ENOMEM;
    json_array_foreach(tools, i, tool) reply_add_tool(reply, tool, i, rules);
    return 0;
}

const struct reply_tool *reply_find_tool(const struct reply *reply, const char *name, size_t len)
{
    for (size_t i = 0; i < reply->n_tools; i++)
        if (strlen(reply->tools[i].name) == len && memcmp(reply->tools[i].name, name, len) == 0)
            return &reply->tools[i];
    return NULL;
}

bool reply_is_plain(const struct reply *reply)
{
    return !reply->thinking && !reply->n_tools &&
           !(reply->format && reply->format->body == BODY_HARMONY);
}

bool reply_prompt_is_open(const struct thinking_marks *thinking, const char *text, size_t len)
{
    size_t n_open;

    if (!thinking)
        return false;
    n_open = strlen(thinking->open);
    while (n_open && parser_is_space(thinking->open[n_open - 1]))
        n_open--;
    while (len && parser_is_space(text[len - 1]))
        len--;
    return len >= n_open && memcmp(text + len - n_open, thinking->open, n_open) == 0;
}

static void tokens_add(int32_t *ids, size_t *n, int32_t id)
{
    for (size_t i = 0; i < *n; i++)
        if (ids[i] == id)
            return;
    if (*n < REPLY_MAX_TOKENS)
        ids[(*n)++] = id;
}

/* Adds the special tokens in the text of a marker. */
static void tokens_show(struct reply_tokens *tokens, const struct inf_tokenizer *tok,
                        const char *marker)
{
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0;

    if (!marker || inf_tokenizer_encode(tok, marker, strlen(marker), INF_ENCODE_PARSE_SPECIAL, 0,
                                        &ids, &n) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const unsigned flags = inf_tokenizer_token_flags(tok, ids[i]);

        if ((flags & INF_TOKEN_SPECIAL) && !(flags & INF_TOKEN_EOG))
            tokens_add(tokens->shown, &tokens->n_shown, ids[i]);
    }
}

static void tokens_of_format(const struct reply_format *f, const struct inf_tokenizer *tok,
                             struct reply_tokens *tokens)
{
    const struct call_marks *m = &f->marks;
    const char *const marks[] = {m->open,  m->call,      m->name_end, m->key,  m->key_end,
                                 m->value, m->value_end, m->call_end, m->close};

    for (size_t i = 0; i < ARRAY_SIZE(f->openers); i++)
        tokens_show(tokens, tok, f->openers[i]);
    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        tokens_show(tokens, tok, marks[i]);
    for (size_t i = 0; i < ARRAY_SIZE(f->shown); i++)
        tokens_show(tokens, tok, f->shown[i]);
    for (size_t i = 0; i < ARRAY_SIZE(f->stops) && f->stops[i]; i++) {
        const int32_t id = inf_tokenizer_find(tok, f->stops[i], strlen(f->stops[i]));

        if (id >= 0 && !(inf_tokenizer_token_flags(tok, id) & INF_TOKEN_EOG))
            tokens_add(tokens->stops, &tokens->n_stops, id);
    }
}

void reply_find_tokens(const struct reply *reply, const struct inf_tokenizer *tok,
                       struct reply_tokens *ret_tokens)
{
    *ret_tokens = (struct reply_tokens){};
    if (reply->thinking) {
        tokens_show(ret_tokens, tok, reply->thinking->open);
        tokens_show(ret_tokens, tok, reply->thinking->close);
    }
    if (reply->format && (reply->n_tools || reply->format->body == BODY_HARMONY))
        tokens_of_format(reply->format, tok, ret_tokens);
}

void reply_done(struct reply *reply)
{
    for (size_t i = 0; i < reply->n_tools; i++)
        json_decref(reply->tools[i].spec);
    free(reply->tools);
    *reply = (struct reply){};
}
