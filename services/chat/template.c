/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders chat templates.
 *
 * A request may set variables of the template. Some variables have a field of their own in the
 * request. If the template does not read such a variable, the request is refused, because the field
 * would have no effect.
 */
#include "chat/template.h"

#include <errno.h>
#include <infer/chat.h>
#include <infer/model.h>
#include <infer/tokenizer.h>
#include <string.h>
#include <time.h>

#include "chat/answer-grammar.h"
#include "chat/described-tools.h"
#include "chat/first-system.h"
#include "chat/generation.h"
#include "chat/model-messages.h"
#include "chat/reply/prefill.h"
#include "chat/short-ids.h"
#include "chat/thinking.h"
#include "common/config/config.h"
#include "common/wire/json.h"
#include "host/model-host.h"

/* Sets the variables `date_string` and `datetime` to the current day, as llama-server does, if the
 * template reads them. Without these variables, templates of Llama write a day of 2024. */
static int template_add_day(json_t *variables, const char *source)
{
    static const struct {
        const char *name, *format;
    } days[] = {{"date_string", "%d %b %Y"}, {"datetime", "%b %d %Y"}};
    const time_t now = time(NULL);
    struct tm tm;

    if (!localtime_r(&now, &tm))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(days); i++) {
        char text[64];

        if (!strstr(source, days[i].name) || json_object_get(variables, days[i].name))
            continue;
        strftime(text, sizeof(text), days[i].format, &tm);
        if (json_object_set_new(variables, days[i].name, json_string(text)) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Sets the variable `functions` to the tools as one text. Templates of Firefunction read it. */
static int template_add_functions(json_t *variables, const json_t *tools, const char *source)
{
    _cleanup_free_ char *text = NULL;

    if (!strstr(source, "+ functions") || json_object_get(variables, "functions"))
        return 0;
    text = tools ? json_dumps(tools, JSON_INDENT(2)) : strdup("");
    if (!text)
        return -ENOMEM;
    return json_object_set_new(variables, "functions", json_string(text)) < 0 ? -ENOMEM : 0;
}

/* Sets *ret_text to the template variables as JSON text, or to NULL if there are none. */
static int template_variables(const struct conversation *c, const char *source, char **ret_text,
                              struct problem *problem)
{
    _cleanup_json_ json_t *all = c->variables ? json_copy(c->variables) : json_object();
    const char *name;
    json_t *value;
    int r = all ? 0 : -ENOMEM;

    *ret_text = NULL;
    json_object_foreach(c->settings, name, value)
    {
        if (!strstr(source, name))
            return problem_set(problem, 400, "unsupported_parameter", name,
                               "Unsupported parameter: '%s' has no effect on this model.", name);
        if (r == 0)
            r = json_object_set(all, name, value);
    }
    r = r < 0 ? r : template_add_day(all, source);
    r = r < 0 ? r : template_add_functions(all, c->tools, source);
    if (r == 0 && json_object_size(all)) {
        *ret_text = json_dumps(all, JSON_COMPACT);
        r = *ret_text ? 0 : -ENOMEM;
    }
    return r < 0 ? problem_no_memory(problem) : 0;
}

/* Finds the format in which the model writes calls. If the source of the template does not show the
 * format, renders a small conversation with a call, and looks at the text. */
static const struct reply_format *template_format(const struct generation *g,
                                                  const struct inf_chat_template *tmpl)
{
    const struct inf_chat_input probe = {
        .messages =
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\","
            "\"tool_calls\":[{\"type\":\"function\",\"id\":\"000000000\",\"function\":{"
            "\"name\":\"probe\",\"arguments\":{\"key\":\"value\"}}}]}]",
        .tools = "[{\"type\":\"function\",\"function\":{\"name\":\"probe\",\"description\":\"\","
                 "\"parameters\":{\"type\":\"object\",\"properties\":{\"key\":{\"type\":\"string\","
                 "\"description\":\"\"}},\"required\":[\"key\"]}}}]",
        .limits.max_usec = g->request.host->config->chat.template_timeout_usec,
    };
    const struct reply_format *format = reply_format_find(inf_chat_template_text(tmpl));
    const struct reply_format *written = NULL;
    _cleanup_free_ char *text = NULL;
    struct inf_err err;
    size_t len;

    if (!format || !format->openers[0]) {
        if (inf_chat_render(tmpl, &probe, &text, &len, &err) == 0)
            written = reply_format_find(text);
        if (written && written->openers[0])
            return written;
    }
    return format;
}

/* Prepares the tools for the template, and chooses the format of the answers. If the template reads
 * no tools, they become text of the messages. */
static int template_set_tools(struct generation *g, const struct inf_chat_template *tmpl,
                              struct problem *problem)
{
    const char *source = inf_chat_template_text(tmpl);
    const struct tool_rules *rules = &g->params.tools;
    struct conversation *c = &g->conversation;
    const bool may_call = json_array_size(c->tools) && rules->choice != TOOLS_NONE;
    const bool reads_tools = strstr(source, "tools") || strstr(source, "+ functions");
    const struct reply_format *format =
        may_call ? template_format(g, tmpl) : reply_format_find(source);
    int r = 0;

    if (may_call)
        r = reply_set_tools(&g->reply, c->tools, rules);
    r = r < 0 ? r : tools_rewrite_calls(c);
    if (may_call && r == 0) {
        json_t *tools = tools_for_template(c->tools);

        json_decref(c->tools);
        c->tools = tools;
        r = tools ? 0 : -ENOMEM;
    } else if (r == 0) {
        json_decref(c->tools);
        c->tools = NULL;
    }
    if (r == 0 && !reads_tools && !strstr(source, "tool_calls")) {
        r = tools_describe(c, may_call);
        format = may_call ? reply_format_named("hermes") : format;
        json_decref(c->tools);
        c->tools = NULL;
    }
    g->reply.format = format;
    g->reply.thinking = thinking_find(source);
    return r < 0 ? problem_no_memory(problem) : 0;
}

static char *token_text(const struct inf_tokenizer *tok, int32_t id)
{
    size_t len = 0;
    const char *text = id >= 0 ? inf_tokenizer_token_text(tok, id, &len) : NULL;

    return text ? strndup(text, len) : NULL;
}

static int template_run(struct generation *g, const struct inf_chat_template *tmpl,
                        const char *variables, char **ret_text, size_t *ret_len,
                        struct problem *problem)
{
    const struct conversation *c = &g->conversation;
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    _cleanup_str_ struct str messages = {};
    _cleanup_free_ char *tools = c->tools ? json_dumps(c->tools, JSON_COMPACT) : NULL;
    _cleanup_free_ char *documents = c->documents ? json_dumps(c->documents, JSON_COMPACT) : NULL;
    _cleanup_free_ char *bos = token_text(tok, inf_tokenizer_bos(tok));
    _cleanup_free_ char *eos = token_text(tok, inf_tokenizer_eos(tok));
    _cleanup_free_ char *pad = token_text(tok, inf_tokenizer_pad(tok));
    struct inf_chat_input input = {
        .tools = tools,
        .documents = documents,
        .kwargs = variables,
        .bos_token = bos,
        .eos_token = eos,
        .pad_token = pad,
        .add_generation_prompt = c->continues || !c->adds_no_prompt,
        .limits.max_usec = g->request.host->config->chat.template_timeout_usec,
    };
    struct inf_err err = {};
    int r;

    r = conversation_put_messages(c, thinking_field(inf_chat_template_text(tmpl)), &messages);
    if (r < 0 || (c->tools && !tools) || (c->documents && !documents))
        return problem_no_memory(problem);
    input.messages = messages.data;
    r = inf_chat_render(tmpl, &input, ret_text, ret_len, &err);
    if (r == -ENOMEM)
        return problem_no_memory(problem);
    if (r < 0)
        return problem_set(
            problem, 400, r == -E2BIG || r == -ETIME ? "template_limit" : "template_error",
            g->api->prompt_field, "The model's chat template refused the messages: %s.", err.text);
    return 0;
}

/* Appends the beginning of the message that the answer continues. */
static int template_continue(struct generation *g, char **text, size_t *len,
                             struct problem *problem)
{
    const struct message *m = conversation_continued(&g->conversation);
    _cleanup_str_ struct str more = {};
    char *longer;

    if (!m)
        return 0;
    if (prefill_put(&g->reply, *text, *len, m->reasoning, m->text, &more) < 0)
        return problem_no_memory(problem);
    longer = realloc(*text, *len + more.len + 1);
    if (!longer)
        return problem_no_memory(problem);
    if (more.len)
        memcpy(longer + *len, more.data, more.len);
    *text = longer;
    *len += more.len;
    longer[*len] = '\0';
    return 0;
}

int template_render(struct generation *g, char **ret_text, size_t *ret_len, struct problem *problem)
{
    const struct inf_chat_template *tmpl = inf_model_chat_template(g->resident->base.model);
    _cleanup_free_ char *variables = NULL;
    const char *source;
    int r;

    if (!tmpl && inf_model_info(g->resident->base.model)->template_error)
        return problem_set(problem, 400, "bad_chat_template", "model",
                           "The chat template of '%s' cannot be used: %s; use /v1/completions.",
                           g->resident->base.name,
                           inf_model_info(g->resident->base.model)->template_error);
    if (!tmpl)
        return problem_set(problem, 400, "no_chat_template", "model",
                           "The model '%s' has no chat template; use /v1/completions.",
                           g->resident->base.name);
    source = inf_chat_template_text(tmpl);
    if (g->conversation.documents && !strstr(source, "documents"))
        return problem_set(problem, 400, "unsupported_parameter", "documents",
                           "Unsupported parameter: 'documents' has no effect on this model.");
    if (model_messages_add(&g->conversation, &g->resident->base.settings) < 0)
        return problem_no_memory(problem);
    r = template_set_tools(g, tmpl, problem);
    if (r == 0 && first_system_exists(&g->conversation) && !first_system_is_native(tmpl) &&
        first_system_merge(&g->conversation) < 0)
        r = problem_no_memory(problem);
    r = r < 0 ? r : thinking_set_variables(g, source, problem);
    r = r < 0 ? r : thinking_write_history(&g->conversation, source, problem);
    if (r == 0 && short_ids_needed(source) && short_ids_set(&g->conversation) < 0)
        r = problem_no_memory(problem);
    r = r < 0 ? r : template_variables(&g->conversation, source, &variables, problem);
    r = r < 0 ? r : template_run(g, tmpl, variables, ret_text, ret_len, problem);
    return r < 0 ? r : template_continue(g, ret_text, ret_len, problem);
}

/* Sets how the answers to the prompt @text are parsed and constrained. */
static int template_set_reply(struct generation *g, const char *text, size_t len,
                              struct problem *problem)
{
    if (thinking_set_channel(g, text, len) < 0)
        return problem_no_memory(problem);
    reply_find_tokens(&g->reply, inf_model_tokenizer(g->resident->base.model), &g->tokens);
    return answer_grammar_set(g, problem);
}

int conversation_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const int32_t bos = inf_tokenizer_bos(tok);
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r;

    r = template_render(g, &text, &len, problem);
    if (r == 0)
        r = generation_add_prompt(g, text, len, INF_ENCODE_PARSE_SPECIAL, problem);
    if (r < 0)
        return r;
    if (inf_tokenizer_adds_bos(tok) && bos >= 0 && g->prompts[0].tokens[0] != bos &&
        !strstr(inf_chat_template_text(inf_model_chat_template(g->resident->base.model)),
                "bos_token")) {
        /* The model was trained with a BOS token at the beginning of each text. The template does
         * not write this token, so the tokenizer must add it. */
        free(g->prompts[0].tokens);
        g->n_prompts = 0;
        r = generation_add_prompt(g, text, len, INF_ENCODE_PARSE_SPECIAL | INF_ENCODE_ADD_SPECIAL,
                                  problem);
    }
    return r < 0 ? r : template_set_reply(g, text, len, problem);
}
