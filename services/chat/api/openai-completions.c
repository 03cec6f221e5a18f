/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/completions.
 *
 * The field `prompt` is a string, an array of strings, an array of token ids, or an array of arrays
 * of token ids. Choices 0 to n - 1 belong to the first prompt, the next n to the second, and so on.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/answer-grammar.h"
#include "chat/api/fim.h"
#include "chat/api/logprobs.h"
#include "chat/api/openai-answer.h"
#include "chat/api/openai-body.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "core/utf8.h"

#define COMPLETIONS_MAX_TOKENS 16

static const char *const completions_fields[] = {
    "prompt", "max_tokens", "n_predict", "echo", "logprobs", "suffix", "best_of", NULL,
};

static int completions_read(struct generation *g, struct problem *problem)
{
    int64_t max_tokens = COMPLETIONS_MAX_TOKENS, best_of, top = 0;
    json_t *suffix = field_find(g->body, "suffix");
    struct openai_own *own = g->own;
    int r;

    if ((r = openai_fields_known(g->body, completions_fields, problem)) < 0 ||
        (r = openai_params_read(&g->params, g->body, problem)) < 0)
        return r;
    best_of = g->params.n;
    if ((r = field_int(g->body, "n_predict", -1, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_int(g->body, "max_tokens", -1, INT32_MAX, &max_tokens, problem)) < 0 ||
        (r = field_bool(g->body, "echo", &own->echo, problem)) < 0 ||
        (r = field_int(g->body, "best_of", 1, PARAMS_MAX_CHOICES, &best_of, problem)) < 0)
        return r;
    if (suffix && !json_is_string(suffix))
        return field_wrong_type("suffix", "a string", suffix, problem);
    if (suffix && !json_is_string(field_find(g->body, "prompt")))
        return problem_set(problem, 400, "invalid_value", "suffix",
                           "'suffix' is only possible with one string as 'prompt'.");
    if (best_of != g->params.n)
        return problem_set(problem, 400, "unsupported_parameter", "best_of",
                           "Unsupported value: 'best_of' must equal 'n'.");
    r = field_int(g->body, "logprobs", 0, 20, &top, problem);
    if (r < 0)
        return r;
    g->params.n_logprobs = r > 0 ? (int)top : -1;
    g->params.max_tokens = max_tokens > 0 ? (uint32_t)max_tokens : 0;
    g->params.score_only = max_tokens == 0;
    g->params.prompt_logprobs = own->echo && g->params.n_logprobs >= 0;
    if ((r = openai_constraint_read(g->body, &g->params.constraint, problem)) < 0)
        return r;
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
                               "Invalid value for 'prompt': %lld is not a token id of this model "
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
    return generation_add_prompt(g, json_string_value(prompt), json_string_length(prompt),
                                 INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, problem);
}

static int add_prompts(struct generation *g, struct problem *problem)
{
    json_t *prompt = field_find(g->body, "prompt"), *suffix = field_find(g->body, "suffix");

    if (json_string_length(suffix))
        return fim_prepare(g,
                           &(struct fim_input){.prefix = prompt,
                                               .suffix = suffix,
                                               .field = "suffix",
                                               .room = generation_max_tokens(g)},
                           problem);
    if (!json_is_array(prompt) || json_is_integer(json_array_get(prompt, 0)))
        return add_one(g, prompt, problem);
    return generation_add_prompts(g, prompt, "n", add_one, problem);
}

static int completions_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const struct openai_own *own = g->own;
    int r = add_prompts(g, problem);

    for (size_t i = 0; own->echo && i < g->n_prompts && r == 0; i++) {
        struct prompt *p = &g->prompts[i];

        if (inf_tokenizer_decode(tok, p->tokens, p->n_tokens, g->params.show_special, &p->text,
                                 &p->text_len) < 0)
            r = problem_no_memory(problem);
    }
    return r < 0 ? r : answer_grammar_set(g, problem);
}

/* In requests to this endpoint, c->own points to this structure. */
struct completions_choice {
    struct str
        logprobs[4]; /* elements of the arrays of struct logprobs_legacy that were not sent yet */
    int32_t offset;  /* where the next token begins in the text, in code points */
    bool echoed;     /* the prompt was written */
};

static struct logprobs_legacy logprobs_of(const struct generation *g, const struct choice *c)
{
    struct completions_choice *own = c->own;

    return (struct logprobs_legacy){&own->logprobs[0], &own->logprobs[1], &own->logprobs[2],
                                    &own->logprobs[3], &own->offset,      g->params.show_special};
}

static void completions_choice_done(struct choice *c)
{
    struct completions_choice *own = c->own;

    for (size_t i = 0; i < ARRAY_SIZE(own->logprobs); i++)
        str_done(&own->logprobs[i]);
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
    if (r == 0 && g->params.n_logprobs >= 0)
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
    struct completions_choice *own = c->own;
    int r = sse_open(&g->out);

    r = r < 0 ? r : openai_put_head(g, "text_completion");
    r = r < 0 ? r : put_choice(g, c, text, len, finish);
    r = r < 0 ? r : str_puts(&g->out, g->params.include_usage ? "],\"usage\":null}" : "]}");
    for (size_t i = 0; i < ARRAY_SIZE(own->logprobs); i++)
        str_clear(&own->logprobs[i]);
    return r < 0 ? r : sse_close(&g->out);
}

static int put_text(struct generation *g, struct choice *c, const char *text, size_t len)
{
    if (!g->request.streaming)
        return str_append(&c->text, text, len);
    return len ? put_chunk(g, c, text, len, NULL) : 0;
}

/* Writes the prompt at the beginning of the choice if the request has `echo` and the prompt was not
 * written before. */
static int echo_prompt(struct generation *g, struct choice *c)
{
    const struct openai_own *own = g->own;
    struct completions_choice *of_choice = c->own;

    if (of_choice->echoed || !own->echo)
        return 0;
    of_choice->echoed = true;
    return put_text(g, c, c->prompt->text, c->prompt->text_len);
}

/* Returns whether @text lacks the space at the beginning of its first token. Many tokenizers add
 * this space before each text, and decoding removes it. */
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

/* Handles the probabilities of a prompt. The engine reports them once per prompt, and this function
 * adds them to all choices of the prompt. */
static int prompt_tokens(struct generation *g, const struct prompt *prompt,
                         const struct inf_event *event)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const struct openai_own *own = g->own;
    int r = 0;

    if (!own->echo)
        return 0;
    for (uint32_t k = 0; k < g->params.n && r == 0; k++) {
        struct choice *c = &g->choices[(size_t)(prompt - g->prompts) * g->params.n + k];
        struct logprobs_legacy l = logprobs_of(g, c);

        *l.offset = text_lost_space(tok, event, prompt->text) ? -1 : 0;
        for (size_t i = 0; g->params.n_logprobs >= 0 && i < event->n_tokens && r == 0; i++)
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
    for (size_t i = 0; g->params.n_logprobs >= 0 && i < event->n_tokens && r == 0; i++)
        r = logprobs_add_legacy(&logprobs, tok, &event->tokens[i]);
    return r;
}

static int completions_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    return put_chunk(g, c, piece->text, piece->len, NULL);
}

static int completions_finish(struct generation *g, struct choice *c)
{
    const int r = echo_prompt(g, c);

    return r < 0 || !g->request.streaming ? r
                                          : put_chunk(g, c, "", 0, generation_finish_word(g, c));
}

static int completions_begin(struct generation *g)
{
    /* The HTTP headers are sent with the first bytes of the body. This SSE comment sends them at
     * once. */
    return str_puts(&g->out, ": accepted\n\n");
}

static int completions_end(struct generation *g)
{
    int r;

    if (g->request.streaming)
        return openai_put_usage_event(g, "text_completion");
    r = openai_put_head(g, "text_completion");
    for (size_t i = 0; i < g->n_choices && r == 0; i++) {
        struct choice *c = &g->choices[i];

        r = i ? str_putc(&g->out, ',') : 0;
        r = r < 0 ? r
                  : put_choice(g, c, c->text.data ? c->text.data : "", c->text.len,
                               generation_finish_word(g, c));
    }
    r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
    r = r < 0 ? r : openai_put_usage(g, &g->out);
    r = r < 0 ? r : openai_put_extras(g, &g->out);
    return r < 0 ? r : str_putc(&g->out, '}');
}

static int completions_progress(struct generation *g, struct choice *c)
{
    return openai_put_progress(g, c, "text_completion");
}

const struct chat_api api_openai_completions = {
    .id_prefix = "cmpl-",
    .prompt_field = "prompt",
    .finishes = {[FINISH_STOP] = "stop", [FINISH_STOP_TEXT] = "stop", [FINISH_LENGTH] = "length"},
    .own_size = sizeof(struct openai_own),
    .choice_size = sizeof(struct completions_choice),
    .read = completions_read,
    .prepare = completions_prepare,
    .stream_type = SSE_TYPE,
    .stream_pause = SSE_COMMENT,
    .stream_end = SSE_DONE,
    .begin = completions_begin,
    .tokens = completions_tokens,
    .piece = completions_piece,
    .progress = completions_progress,
    .finish = completions_finish,
    .end = completions_end,
    .choice_done = completions_choice_done,
    .done = openai_own_done,
};
