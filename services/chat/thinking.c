/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how much a model thinks.
 *
 * The templates of model families read different variables: enable_thinking (Qwen, GLM, Gemma),
 * thinking (DeepSeek, Granite, Kimi), reasoning_effort (gpt-oss). If a template reads none of these
 * variables and thinking is switched off, the engine ends the thinking as soon as it begins.
 */
#include "chat/thinking.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "common/wire/fields.h"
#include "common/wire/json.h"

static bool thinking_is_off(const struct reasoning_rules *rules)
{
    if (rules->enabled >= 0)
        return rules->enabled == 0;
    return rules->budget == 0 || field_is(rules->effort, "none");
}

/* Returns the variable that switches thinking on and off; NULL: there is none. */
static const char *thinking_switch(const char *source)
{
    static const char *const needles[] = {"thinking is defined", "thinking is not defined",
                                          "if thinking",         "thinking is true",
                                          "thinking|default",    "thinking | default"};

    if (strstr(source, "enable_thinking"))
        return "enable_thinking";
    for (size_t i = 0; i < ARRAY_SIZE(needles); i++)
        if (strstr(source, needles[i]))
            return "thinking";
    return NULL;
}

static int thinking_put(struct conversation *c, const char *name, json_t *value)
{
    int r = 0;

    if (!value)
        return -ENOMEM;
    if (!json_object_get(c->variables, name))
        r = conversation_set(c, name, value);
    json_decref(value);
    return r;
}

/* Returns the word that the template knows for @effort. All templates know low, medium and high. */
static const char *thinking_effort(const char *effort, const char *source)
{
    if (strcmp(effort, "minimal") == 0 || strcmp(effort, "none") == 0)
        return strstr(source, effort) ? effort : "low";
    if (strcmp(effort, "xhigh") == 0 || strcmp(effort, "max") == 0)
        return strstr(source, effort) ? effort : "high";
    return effort;
}

/* Reads the variable @name if the request sets it directly. The variable then overrides the other
 * fields of the request, so that the grammar and the engine agree with the prompt. */
static void thinking_read_variable(struct generation *g, const char *name)
{
    json_t *value = json_object_get(g->conversation.variables, name ? name : "enable_thinking");

    if (json_is_boolean(value))
        g->params.reasoning.enabled = json_is_true(value);
}

int thinking_set_variables(struct generation *g, const char *source, struct problem *problem)
{
    const char *name = thinking_switch(source);

    thinking_read_variable(g, name);
    const struct reasoning_rules *rules = &g->params.reasoning;
    const char *effort = json_string_value(rules->effort);
    const bool reads_effort = strstr(source, "reasoning_effort"), off = thinking_is_off(rules);
    const bool wants = !off && (rules->enabled > 0 || effort);
    int r = 0;

    if (rules->field && wants && !name && !reads_effort && !thinking_find(source))
        return problem_set(problem, 400, "unsupported_parameter", rules->field,
                           "Unsupported parameter: '%s' has no effect on this model.",
                           rules->field);
    if (name && (off || rules->enabled > 0 || effort))
        r = thinking_put(&g->conversation, name, json_boolean(!off));
    if (r == 0 && reads_effort && effort)
        r = thinking_put(&g->conversation, "reasoning_effort",
                         json_string(thinking_effort(effort, source)));
    return r < 0 ? problem_no_memory(problem) : 0;
}

/* Returns whether the template reads a field @name of any object. */
static bool thinking_reads(const char *source, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = source; (at = strstr(at, name)) != NULL; at += n) {
        const char before = at > source ? at[-1] : ' ', behind = at[n];

        if ((before == '.' || before == '\'' || before == '"') && behind != '_')
            return true;
    }
    return false;
}

static const char *thinking_find_field(const char *source)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (thinking_reads(source, names[i]))
            return names[i];
    return NULL;
}

const char *thinking_field(const char *source)
{
    const char *field = thinking_find_field(source);

    return field ? field : "reasoning_content";
}

/* Some messages have calls, thinking and a text. The template of gpt-oss refuses such messages,
 * because it writes thinking and text in the same place. In these messages, appends the text to the
 * thinking. */
static int thinking_take_text(struct conversation *c)
{
    for (size_t i = 0; i < c->n_messages; i++) {
        struct message *m = &c->messages[i];
        json_t *both;

        if (!m->n_calls || !json_string_length(m->reasoning) || !json_string_length(m->text))
            continue;
        both =
            json_sprintf("%s\n\n%s", json_string_value(m->reasoning), json_string_value(m->text));
        if (!both)
            return -ENOMEM;
        json_decref(m->text);
        json_decref(m->reasoning);
        m->text = NULL;
        m->reasoning = both;
    }
    return 0;
}

/* Puts the assistant's thoughts at the beginning of the text of a message. */
static int thinking_write_message(struct message *m)
{
    _cleanup_str_ struct str text = {};
    json_t *string;
    int r = str_puts(&text, "<think>\n");

    r = r < 0
            ? r
            : str_append(&text, json_string_value(m->reasoning), json_string_length(m->reasoning));
    r = r < 0 ? r : str_puts(&text, "\n</think>\n\n");
    if (r == 0 && m->text)
        r = str_append(&text, json_string_value(m->text), json_string_length(m->text));
    string = r < 0 ? NULL : json_stringn(text.data, text.len);
    if (!string)
        return -ENOMEM;
    json_decref(m->text);
    json_decref(m->reasoning);
    m->text = string;
    m->reasoning = NULL;
    return 0;
}

int thinking_write_history(struct conversation *c, const char *source, struct problem *problem)
{
    const struct thinking_marks *marks = thinking_find(source);

    if (strstr(source, "Cannot pass both content and thinking"))
        return thinking_take_text(c) < 0 ? problem_no_memory(problem) : 0;
    if (!marks || strcmp(marks->close, "</think>") != 0 || thinking_find_field(source))
        return 0;
    /* If the answer continues the last message, the template does not write this message. */
    for (size_t i = 0; i < c->n_messages - (c->continues ? 1 : 0); i++) {
        struct message *m = &c->messages[i];

        if (m->role == ROLE_ASSISTANT && json_string_length(m->reasoning) &&
            thinking_write_message(m) < 0)
            return problem_no_memory(problem);
    }
    return 0;
}

/* Appends the tokens of @text to g->channel_tokens. */
static int thinking_add(struct generation *g, const char *text, size_t *n_all, size_t *ret_n)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    _cleanup_free_ int32_t *ids = NULL;
    int32_t *all;
    size_t n = 0;
    int r = inf_tokenizer_encode(tok, text, strlen(text), INF_ENCODE_PARSE_SPECIAL, 0, &ids, &n);

    if (r < 0)
        return r;
    all = realloc(g->channel_tokens, (*n_all + n + 1) * sizeof(*all));
    if (!all)
        return -ENOMEM;
    g->channel_tokens = all;
    if (n)
        memcpy(all + *n_all, ids, n * sizeof(*all));
    *n_all += n;
    *ret_n = n;
    return 0;
}

static uint32_t thinking_budget(const struct reasoning_rules *rules)
{
    if (thinking_is_off(rules))
        return 0;
    return rules->budget < 0 || rules->budget >= UINT32_MAX ? UINT32_MAX : (uint32_t)rules->budget;
}

int thinking_set_channel(struct generation *g, const char *text, size_t len)
{
    const struct thinking_marks *marks = g->reply.thinking;
    size_t n = 0, n_open = 0, n_close = 0, n_forced = 0;
    const bool is_think = marks && strcmp(marks->close, "</think>") == 0;
    int r;

    if (!marks)
        return 0;
    g->reply.is_open = reply_prompt_is_open(marks, text, len);
    r = thinking_add(g, marks->open, &n, &n_open);
    r = r < 0 ? r : thinking_add(g, marks->close, &n, &n_close);
    /* Models of this kind were trained with line feeds around the tag that ends the thinking. */
    if (r == 0 && is_think)
        r = thinking_add(g, "\n</think>\n\n", &n, &n_forced);
    if (r < 0)
        return r;
    g->channel = (struct inf_channel){
        .open = g->channel_tokens,
        .n_open = n_open,
        .close = g->channel_tokens + n_open,
        .n_close = n_close,
        .is_open = g->reply.is_open,
        .budget = thinking_budget(&g->params.reasoning),
        .forced = g->channel_tokens + n_open + n_close,
        .n_forced = n_forced,
        .beside_length = g->params.reasoning.beside_length,
    };
    return 0;
}
