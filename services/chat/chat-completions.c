/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/chat/completions
 *
 * A stream begins with a chunk with the role for each choice. Chunks with content follow, then for
 * each choice a chunk with the finish reason. If the client requests the usage, it is the last
 * chunk.
 */
#include <errno.h>
#include <infer/chat.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/generation.h"
#include "chat/logprobs.h"
#include "chat/template.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

static const char *const chat_fields[] = {
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "logprobs",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "response_format",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "documents",
    "chat_template_kwargs",
    "enable_thinking",
    "reasoning_effort",
    "add_generation_prompt",
    NULL,
};

/* Refuses parameters of unsupported features by name. */
static int chat_read_unsupported(struct generation *g, struct problem *problem)
{
    static const char *const refused[] = {"audio", "prediction", "web_search_options"};
    json_t *tools = field_find(g->body, "tools"), *value;
    bool parallel = true;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (field_find(g->body, refused[i]))
            return problem_set(problem, 400, "unsupported_parameter", refused[i],
                               "Unsupported parameter: '%s' is not supported here.", refused[i]);
    if (tools && !json_is_array(tools))
        return field_wrong_type("tools", "an array", tools, problem);
    value = field_find(g->body, "tool_choice");
    if (value && !field_is(value, "none") && !field_is(value, "auto"))
        return problem_set(problem, 400, "unsupported_parameter", "tool_choice",
                           "Unsupported value: 'tool_choice' must be \"none\" or \"auto\".");
    if (json_array_size(tools) && !field_is(value, "none"))
        return problem_set(problem, 400, "unsupported_parameter", "tools",
                           "Unsupported parameter: 'tools' is only possible with 'tool_choice': "
                           "\"none\".");
    if (json_array_size(field_find(g->body, "functions")))
        return problem_set(problem, 400, "unsupported_parameter", "functions",
                           "Unsupported parameter: 'functions' is not supported here.");
    value = field_find(g->body, "function_call");
    if (value && !field_is(value, "none") && !field_is(value, "auto"))
        return problem_set(problem, 400, "unsupported_parameter", "function_call",
                           "Unsupported value: 'function_call' must be \"none\" or \"auto\".");
    value = field_find(g->body, "response_format");
    if (value && !json_is_object(value))
        return field_wrong_type("response_format", "an object", value, problem);
    if (value && !field_is(json_object_get(value, "type"), "text"))
        return problem_set(problem, 400, "unsupported_parameter", "response_format",
                           "Unsupported value: 'response_format' must be {\"type\": \"text\"}.");
    value = field_find(g->body, "modalities");
    if (value && !(json_array_size(value) == 1 && field_is(json_array_get(value, 0), "text")))
        return problem_set(problem, 400, "unsupported_parameter", "modalities",
                           "Unsupported value: 'modalities' must be [\"text\"].");
    return field_bool(g->body, "parallel_tool_calls", &parallel, problem);
}

static int chat_read(struct generation *g, struct problem *problem)
{
    int64_t max_tokens = 0, top = 0;
    bool logprobs = false;
    int r;

    if ((r = field_int(g->body, "max_tokens", 1, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_int(g->body, "max_completion_tokens", 1, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_bool(g->body, "logprobs", &logprobs, problem)) < 0)
        return r;
    g->max_tokens = (uint32_t)max_tokens;
    r = field_int(g->body, "top_logprobs", 0, 20, &top, problem);
    if (r < 0)
        return r;
    if (r > 0 && top && !logprobs)
        return problem_set(problem, 400, "invalid_value", "top_logprobs",
                           "'top_logprobs' is only possible with 'logprobs': true.");
    g->n_logprobs = logprobs ? (int)top : -1;
    r = chat_read_unsupported(g, problem);
    return r < 0 ? r : template_read(g, problem);
}

static int chat_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const int32_t bos = inf_tokenizer_bos(tok);
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r;

    r = template_render(g, &text, &len, problem);
    if (r == 0)
        r = generation_add_prompt(g, "messages", text, len, INF_ENCODE_PARSE_SPECIAL, problem);
    if (r < 0 || !inf_tokenizer_adds_bos(tok) || bos < 0 || g->prompts[0].tokens[0] == bos ||
        strstr(inf_chat_template_text(inf_model_chat_template(g->resident->base.model)),
               "bos_token"))
        return r;
    /* The model was trained with a token at the beginning. The template does not write it, so the
     * tokenizer must add it. */
    free(g->prompts[0].tokens);
    g->n_prompts = 0;
    return generation_add_prompt(g, "messages", text, len,
                                 INF_ENCODE_PARSE_SPECIAL | INF_ENCODE_ADD_SPECIAL, problem);
}

/* Opens a chunk of one choice, up to "delta":. */
static int chunk_open(struct generation *g, uint32_t index)
{
    int r = sse_open(&g->out);

    r = r < 0 ? r : generation_put_head(g, "chat.completion.chunk");
    r = r < 0 ? r : str_puts(&g->out, "{\"index\":");
    r = r < 0 ? r : json_put_uint(&g->out, index);
    return r < 0 ? r : str_puts(&g->out, ",\"delta\":");
}

/* Closes a chunk after the delta. @logprobs and the reason @finish may be NULL. */
static int chunk_close(struct generation *g, const struct str *logprobs, const char *finish)
{
    int r = str_puts(&g->out, ",\"logprobs\":");

    if (r == 0 && logprobs && logprobs->len)
        r = str_printf(&g->out, "{\"content\":[%s],\"refusal\":null}", logprobs->data);
    else if (r == 0)
        r = str_puts(&g->out, "null");
    r = r < 0 ? r : str_puts(&g->out, ",\"finish_reason\":");
    r = r < 0 ? r : json_put_text(&g->out, finish);
    r = r < 0 ? r : str_puts(&g->out, g->params.include_usage ? "}],\"usage\":null}" : "}]}");
    return r < 0 ? r : sse_close(&g->out);
}

static int chat_begin(struct generation *g)
{
    int r = 0;

    for (size_t i = 0; i < g->n_choices && r == 0; i++) {
        r = chunk_open(g, (uint32_t)i);
        r = r < 0 ? r
                  : str_puts(&g->out, "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}");
        r = r < 0 ? r : chunk_close(g, NULL, NULL);
    }
    return r;
}

static int chat_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    int r = 0;

    if (event->kind != INF_EVENT_TOKENS)
        return 0;
    for (size_t i = 0; g->n_logprobs >= 0 && i < event->n_tokens && r == 0; i++) {
        if (c->logprobs.len)
            r = str_putc(&c->logprobs, ',');
        r = r < 0 ? r : logprobs_put_chat(&c->logprobs, tok, &event->tokens[i]);
    }
    if (r < 0 || !g->request.streaming)
        return r < 0 ? r : str_append(&c->text, event->text, event->text_len);
    /* Text may be held back; its probabilities are sent together with it. */
    if (!event->text_len)
        return 0;
    r = chunk_open(g, c->index);
    r = r < 0 ? r : str_puts(&g->out, "{\"content\":");
    r = r < 0 ? r : json_put_string(&g->out, event->text, event->text_len);
    r = r < 0 ? r : str_putc(&g->out, '}');
    r = r < 0 ? r : chunk_close(g, &c->logprobs, NULL);
    str_clear(&c->logprobs);
    return r;
}

static int chat_finish(struct generation *g, struct choice *c)
{
    int r;

    if (!g->request.streaming)
        return 0;
    r = chunk_open(g, c->index);
    r = r < 0 ? r : str_puts(&g->out, "{}");
    return r < 0 ? r : chunk_close(g, &c->logprobs, c->finish);
}

static int chat_put_choice(struct generation *g, const struct choice *c)
{
    struct str *out = &g->out;
    int r = str_printf(out, "%s{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":",
                       c->index ? "," : "", c->index);

    r = r < 0 ? r : json_put_string(out, c->text.data ? c->text.data : "", c->text.len);
    r = r < 0 ? r : str_puts(out, ",\"refusal\":null},\"logprobs\":");
    if (r == 0 && g->n_logprobs >= 0)
        r = str_printf(out, "{\"content\":[%s],\"refusal\":null}",
                       c->logprobs.data ? c->logprobs.data : "");
    else if (r == 0)
        r = str_puts(out, "null");
    return r < 0 ? r : str_printf(out, ",\"finish_reason\":\"%s\"}", c->finish);
}

static int chat_end(struct generation *g)
{
    int r;

    if (g->request.streaming) {
        if (!g->params.include_usage)
            return 0;
        r = sse_open(&g->out);
        r = r < 0 ? r : generation_put_head(g, "chat.completion.chunk");
        r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
        r = r < 0 ? r : generation_put_usage(g, &g->out);
        r = r < 0 ? r : str_putc(&g->out, '}');
        return r < 0 ? r : sse_close(&g->out);
    }
    r = generation_put_head(g, "chat.completion");
    for (size_t i = 0; i < g->n_choices && r == 0; i++)
        r = chat_put_choice(g, &g->choices[i]);
    r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
    r = r < 0 ? r : generation_put_usage(g, &g->out);
    return r < 0 ? r : str_putc(&g->out, '}');
}

const struct endpoint endpoint_chat = {
    .id_prefix = "chatcmpl-",
    .fields = chat_fields,
    .generates = true,
    .read = chat_read,
    .prepare = chat_prepare,
    .begin = chat_begin,
    .tokens = chat_tokens,
    .finish = chat_finish,
    .end = chat_end,
};
