/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/completions
 *
 * A prompt is a string, an array of strings, an array of token ids, or an array of such arrays.
 * Choices are numbered prompt by prompt, n for each.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/generation.h"
#include "chat/logprobs.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/utf8.h"

#define COMPLETIONS_MAX_TOKENS 16

static const char *const completions_fields[] = {
    "prompt", "max_tokens", "echo", "logprobs", "suffix", "best_of", NULL,
};

static int completions_read(struct generation *g, struct problem *problem)
{
    int64_t max_tokens = COMPLETIONS_MAX_TOKENS, best_of = g->params.n, top = 0;
    json_t *suffix = field_find(g->body, "suffix");
    int r;

    if ((r = field_int(g->body, "max_tokens", 0, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_bool(g->body, "echo", &g->echo, problem)) < 0 ||
        (r = field_int(g->body, "best_of", 1, PARAMS_MAX_CHOICES, &best_of, problem)) < 0)
        return r;
    if (suffix && !(json_is_string(suffix) && !json_string_length(suffix)))
        return problem_set(problem, 400, "unsupported_parameter", "suffix",
                           "Unsupported parameter: 'suffix' is not supported by this model.");
    if (best_of != g->params.n)
        return problem_set(problem, 400, "unsupported_parameter", "best_of",
                           "Unsupported value: 'best_of' must equal 'n'.");
    r = field_int(g->body, "logprobs", 0, 20, &top, problem);
    if (r < 0)
        return r;
    g->n_logprobs = r > 0 ? (int)top : -1;
    g->max_tokens = (uint32_t)max_tokens;
    g->score_only = max_tokens == 0;
    if (!field_find(g->body, "prompt"))
        return problem_set(problem, 400, "missing_field", "prompt",
                           "Missing required parameter: 'prompt'.");
    return 0;
}

static int add_ids(struct generation *g, json_t *ids, struct problem *problem)
{
    const int64_t n_vocab = inf_model_info(g->resident->base.model)->n_vocab;
    const size_t n = json_array_size(ids);
    int32_t *tokens;
    json_t *id;
    size_t i;

    if (!n)
        return problem_set(problem, 400, "empty_prompt", "prompt",
                           "'prompt' has an empty array of token ids.");
    tokens = NEW(int32_t, n);
    if (!tokens)
        return problem_no_memory(problem);
    json_array_foreach(ids, i, id)
    {
        if (!json_is_integer(id)) {
            free(tokens);
            return field_wrong_type("prompt", "token ids", id, problem);
        }
        if (json_integer_value(id) < 0 || json_integer_value(id) >= n_vocab) {
            const long long bad = (long long)json_integer_value(id);

            free(tokens);
            return problem_set(problem, 400, "invalid_value", "prompt",
                               "Invalid value for 'prompt': %lldis not a token id of this model "
                               "(0 to %lld).",
                               bad, (long long)n_vocab - 1);
        }
        tokens[i] = (int32_t)json_integer_value(id);
    }
    return generation_add_tokens(g, tokens, n, problem);
}

static int add_one(struct generation *g, json_t *prompt, struct problem *problem)
{
    if (json_is_array(prompt))
        return add_ids(g, prompt, problem);
    if (!json_is_string(prompt))
        return field_wrong_type("prompt", "a string or an array", prompt, problem);
    return generation_add_prompt(g, "prompt", json_string_value(prompt), json_string_length(prompt),
                                 INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, problem);
}

static int add_prompts(struct generation *g, struct problem *problem)
{
    json_t *prompt = field_find(g->body, "prompt"), *item;
    size_t i;
    int r = 0;

    if (!json_is_array(prompt) || json_is_integer(json_array_get(prompt, 0)))
        return add_one(g, prompt, problem);
    if (!json_array_size(prompt))
        return problem_set(problem, 400, "empty_prompt", "prompt", "'prompt' is an empty array.");
    if (json_array_size(prompt) * g->params.n > PARAMS_MAX_CHOICES)
        return problem_set(problem, 400, "invalid_value", "prompt",
                           "'prompt' and 'n' ask for %zu answers, at most %d are possible.",
                           json_array_size(prompt) * g->params.n, PARAMS_MAX_CHOICES);
    json_array_foreach(prompt, i, item)
    {
        r = add_one(g, item, problem);
        if (r < 0)
            break;
    }
    return r;
}

static int completions_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    int r = add_prompts(g, problem);

    for (size_t i = 0; g->echo && i < g->n_prompts && r == 0; i++) {
        struct prompt *p = &g->prompts[i];

        if (inf_tokenizer_decode(tok, p->tokens, p->n_tokens, g->params.show_special, &p->text,
                                 &p->text_len) < 0)
            r = problem_no_memory(problem);
    }
    return r;
}

static struct logprobs_legacy logprobs_of(const struct generation *g, struct choice *c)
{
    return (struct logprobs_legacy){&c->logprobs_more[0], &c->logprobs, &c->logprobs_more[1],
                                    &c->logprobs_more[2], &c->offset,   g->params.show_special};
}

static int put_choice(struct generation *g, struct choice *c, const char *text, size_t len,
                      const char *finish)
{
    const struct logprobs_legacy logprobs = logprobs_of(g, c);
    struct str *out = &g->out;
    int r = str_puts(out, "{\"text\":");

    r = r < 0 ? r : json_put_string(out, text, len);
    r = r < 0 ? r : str_puts(out, ",\"index\":");
    r = r < 0 ? r : json_put_uint(out, c->index);
    r = r < 0 ? r : str_puts(out, ",\"logprobs\":");
    if (r == 0 && g->n_logprobs >= 0)
        r = logprobs_put_legacy(out, &logprobs);
    else if (r == 0)
        r = str_puts(out, "null");
    r = r < 0 ? r : str_puts(out, ",\"finish_reason\":");
    r = r < 0 ? r : json_put_text(out, finish);
    return r < 0 ? r : str_putc(out, '}');
}

static int put_chunk(struct generation *g, struct choice *c, const char *text, size_t len,
                     const char *finish)
{
    int r = sse_open(&g->out);

    r = r < 0 ? r : generation_put_head(g, "text_completion");
    r = r < 0 ? r : put_choice(g, c, text, len, finish);
    r = r < 0 ? r : str_puts(&g->out, g->params.include_usage ? "],\"usage\":null}" : "]}");
    str_clear(&c->logprobs);
    for (size_t i = 0; i < ARRAY_SIZE(c->logprobs_more); i++)
        str_clear(&c->logprobs_more[i]);
    return r < 0 ? r : sse_close(&g->out);
}

static int put_text(struct generation *g, struct choice *c, const char *text, size_t len)
{
    if (!g->request.streaming)
        return str_append(&c->text, text, len);
    return len ? put_chunk(g, c, text, len, NULL) : 0;
}

/* With `echo`, a choice begins with its prompt. */
static int echo_prompt(struct generation *g, struct choice *c)
{
    if (c->started || !g->echo)
        return 0;
    c->started = true;
    return put_text(g, c, c->prompt->text, c->prompt->text_len);
}

/* Many tokenizers begin each text with a space that does not belong to the text. */
static bool text_lost_space(const struct inf_tokenizer *tok, const struct inf_event *event,
                            const char *text)
{
    unsigned char byte = 0;

    for (size_t i = 0; i < event->n_tokens; i++)
        if (!(inf_tokenizer_token_flags(tok, event->tokens[i].token) & INF_TOKEN_SPECIAL))
            return inf_tokenizer_token_bytes(tok, event->tokens[i].token, &byte, 1) > 0 &&
                   byte == ' ' && text[0] != ' ';
    return false;
}

/* The engine reports the prompt's probabilities once; they are added to all choices of the
 * prompt. */
static int prompt_tokens(struct generation *g, const struct prompt *prompt,
                         const struct inf_event *event)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    int r = 0;

    if (!g->echo)
        return 0;
    for (uint32_t k = 0; k < g->params.n && r == 0; k++) {
        struct choice *c = &g->choices[(size_t)(prompt - g->prompts) * g->params.n + k];
        struct logprobs_legacy l = logprobs_of(g, c);

        c->offset = text_lost_space(tok, event, prompt->text) ? -1 : 0;
        for (size_t i = 0; g->n_logprobs >= 0 && i < event->n_tokens && r == 0; i++)
            r = logprobs_add_legacy(&l, tok, &event->tokens[i]);
        r = r < 0 ? r : echo_prompt(g, c);
    }
    return r;
}

static int completions_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    struct logprobs_legacy logprobs = logprobs_of(g, c);
    int r = 0;

    if (event->kind == INF_EVENT_PROMPT)
        return prompt_tokens(g, c->prompt, event);
    for (size_t i = 0; g->n_logprobs >= 0 && i < event->n_tokens && r == 0; i++)
        r = logprobs_add_legacy(&logprobs, tok, &event->tokens[i]);
    return r < 0 ? r : put_text(g, c, event->text, event->text_len);
}

static int completions_finish(struct generation *g, struct choice *c)
{
    const int r = echo_prompt(g, c);

    if (g->score_only)
        c->finish = "length";
    return r < 0 || !g->request.streaming ? r : put_chunk(g, c, "", 0, c->finish);
}

static int completions_begin(struct generation *g)
{
    /* Headers are sent together with the first bytes; a comment is enough. */
    return str_puts(&g->out, ": accepted\n\n");
}

static int completions_end(struct generation *g)
{
    int r;

    if (g->request.streaming) {
        if (!g->params.include_usage)
            return 0;
        r = sse_open(&g->out);
        r = r < 0 ? r : generation_put_head(g, "text_completion");
        r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
        r = r < 0 ? r : generation_put_usage(g, &g->out);
        r = r < 0 ? r : str_putc(&g->out, '}');
        return r < 0 ? r : sse_close(&g->out);
    }
    r = generation_put_head(g, "text_completion");
    for (size_t i = 0; i < g->n_choices && r == 0; i++) {
        struct choice *c = &g->choices[i];

        r = i ? str_putc(&g->out, ',') : 0;
        r = r < 0 ? r : put_choice(g, c, c->text.data ? c->text.data : "", c->text.len, c->finish);
    }
    r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
    r = r < 0 ? r : generation_put_usage(g, &g->out);
    return r < 0 ? r : str_putc(&g->out, '}');
}

const struct endpoint endpoint_completions = {
    .id_prefix = "cmpl-",
    .fields = completions_fields,
    .generates = true,
    .read = completions_read,
    .prepare = completions_prepare,
    .begin = completions_begin,
    .tokens = completions_tokens,
    .finish = completions_finish,
    .end = completions_end,
};
