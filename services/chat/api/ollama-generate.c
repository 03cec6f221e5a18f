/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /api/generate, as in Ollama's API.
 *
 * The prompt becomes a message of the user, unless the request has "raw": true or a suffix, or the
 * model has no chat template.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/answer-grammar.h"
#include "chat/api/fim.h"
#include "chat/api/ollama-answer.h"
#include "chat/api/ollama-body.h"
#include "chat/template.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

static int text_field(json_t *body, const char *name, json_t **ret_text, struct problem *problem)
{
    *ret_text = field_find(body, name);
    return *ret_text && !json_is_string(*ret_text)
               ? field_wrong_type(name, "a string", *ret_text, problem)
               : 0;
}

/* Refuses fields that are not supported, and fields that cannot be combined. */
static int generate_check(const struct generation *g, struct problem *problem)
{
    static const char *const without_raw[] = {"template", "suffix", "system", "context"};
    static const char *const without_suffix[] = {"system", "context"};
    const bool fills = json_string_length(json_object_get(g->body, "suffix")) > 0;
    const struct ollama_own *own = g->own;
    json_t *template;
    int r;

    if ((r = text_field(g->body, "template", &template, problem)) < 0 ||
        (r = ollama_refuse_images(json_object_get(g->body, "images"), "images", problem)) < 0)
        return r;
    if (json_string_length(template))
        return problem_set(problem, 400, "unsupported_parameter", "template",
                           "Unsupported parameter: 'template' is not supported here: the model's "
                           "own template is used, or none with 'raw': true.");
    for (size_t i = 0; own->raw && i < ARRAY_SIZE(without_raw); i++)
        if (field_find(g->body, without_raw[i]))
            return problem_set(problem, 400, "invalid_value", "raw",
                               "'%s' is not possible with 'raw': true.", without_raw[i]);
    for (size_t i = 0; fills && i < ARRAY_SIZE(without_suffix); i++)
        if (field_find(g->body, without_suffix[i]))
            return problem_set(problem, 400, "invalid_value", "suffix",
                               "'%s' is not possible with a 'suffix'.", without_suffix[i]);
    return 0;
}

static int generate_add_message(struct generation *g, enum message_role role, json_t *text)
{
    struct message *m = conversation_add(&g->conversation);

    if (!m)
        return -ENOMEM;
    m->role = role;
    m->text = json_incref(text);
    return 0;
}

static int generate_read(struct generation *g, struct problem *problem)
{
    static const char *const fields[] = {"prompt", "suffix",  "system", "template",
                                         "raw",    "context", "images", NULL};
    struct ollama_own *own = g->own;
    json_t *prompt, *suffix, *system, *context = field_find(g->body, "context");
    int r;

    if ((r = ollama_read(g, fields, problem)) < 0 ||
        (r = text_field(g->body, "prompt", &prompt, problem)) < 0 ||
        (r = text_field(g->body, "suffix", &suffix, problem)) < 0 ||
        (r = text_field(g->body, "system", &system, problem)) < 0 ||
        (r = field_bool(g->body, "raw", &own->raw, problem)) < 0 ||
        (r = generate_check(g, problem)) < 0)
        return r;
    if (context && !json_is_array(context))
        return field_wrong_type("context", "an array of token ids", context, problem);
    if (!json_string_length(prompt) && !json_string_length(suffix)) {
        ollama_only_loads(g);
        return 0;
    }
    /* As in Ollama, the prompt of a request with a context gets the system message of the model's
     * manifest, but not the manifest's other messages. */
    g->conversation.has_past = context;
    if (json_string_length(system))
        r = generate_add_message(g, ROLE_SYSTEM, system);
    if (r >= 0 && prompt)
        r = generate_add_message(g, ROLE_USER, prompt);
    return r < 0 ? problem_no_memory(problem) : 0;
}

/* --- the prompt --- */

/* Puts the tokens of `context` before those of the prompt. */
static int prepare_context(struct generation *g, json_t *context, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const int64_t n_vocab = inf_model_info(g->resident->base.model)->n_vocab;
    const size_t n_context = json_array_size(context);
    const struct prompt *prompt = &g->prompts[0];
    const bool has_bos = prompt->tokens[0] == inf_tokenizer_bos(tok);
    const size_t n_new = prompt->n_tokens - has_bos;
    int32_t *tokens;

    if (!n_context)
        return 0;
    tokens = NEW(int32_t, n_context + n_new);
    if (!tokens)
        return problem_no_memory(problem);
    for (size_t i = 0; i < n_context; i++) {
        const json_t *id = json_array_get(context, i);
        const int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;

        if (value < 0 || value >= n_vocab) {
            free(tokens);
            return problem_set(problem, 400, "invalid_value", "context",
                               "Invalid value for 'context': element %zu is not a token id of this "
                               "model (0 to %lld).",
                               i, (long long)n_vocab - 1);
        }
        tokens[i] = (int32_t)value;
    }
    memcpy(tokens + n_context, prompt->tokens + has_bos, n_new * sizeof(*tokens));
    free(prompt->tokens);
    g->n_prompts = 0;
    return generation_add_tokens(g, tokens, n_context + n_new, problem);
}

static int prepare_raw(struct generation *g, json_t *prompt, struct problem *problem)
{
    if (g->conversation.n_messages > 1)
        return problem_set(problem, 400, "unsupported_parameter", "system",
                           "Unsupported parameter: 'system': the model '%s' has no chat template.",
                           g->resident->base.name);
    return generation_add_prompt(g, json_string_value(prompt), json_string_length(prompt),
                                 INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, problem);
}

/* Makes a prompt without the chat template. */
static int prepare_plain(struct generation *g, json_t *suffix, struct problem *problem)
{
    const struct fim_input fim = {
        .prefix = field_find(g->body, "prompt"), .suffix = suffix, .room = g->params.max_tokens};
    int r;

    if (g->params.reasoning.enabled == 1)
        return problem_set(problem, 400, "unsupported_parameter", "think",
                           "Unsupported parameter: 'think': a model thinks only with its chat "
                           "template.");
    r = suffix ? fim_prepare(g, &fim, problem)
               : prepare_raw(g, field_find(g->body, "prompt"), problem);
    return r < 0 ? r : answer_grammar_set(g, problem);
}

static int generate_prepare(struct generation *g, struct problem *problem)
{
    const struct ollama_own *own = g->own;
    json_t *suffix;
    int r;

    ollama_begin_prepare(g);
    if (own->loads)
        return ollama_put_loaded(g, "\"response\":\"\"") < 0 ? problem_no_memory(problem) : 0;
    suffix = field_find(g->body, "suffix");
    suffix = json_string_length(suffix) ? suffix : NULL;
    if (own->raw || suffix || !inf_model_chat_template(g->resident->base.model))
        r = prepare_plain(g, suffix, problem);
    else
        r = conversation_prepare(g, problem);
    return r < 0 ? r : prepare_context(g, field_find(g->body, "context"), problem);
}

/* --- the answer --- */

/* Collects the tokens for the field "context" of the last object. */
static int generate_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    struct ollama_own *own = g->own;
    int r = 0;

    for (size_t i = 0;
         event->kind == INF_EVENT_TOKENS && !own->raw && i < event->n_tokens && r == 0; i++)
        r = str_printf(&own->tokens, ",%d", event->tokens[i].token);
    return r < 0 ? r : ollama_tokens(g, c, event);
}

static int put_text(struct generation *g, const char *text, size_t len, const struct str *thinking)
{
    int r = ollama_put_head(g);

    r = r < 0 ? r : str_puts(&g->out, ",\"response\":");
    r = r < 0 ? r : json_put_string(&g->out, text ? text : "", len);
    if (r == 0 && thinking->len) {
        r = str_puts(&g->out, ",\"thinking\":");
        r = r < 0 ? r : json_put_string(&g->out, thinking->data, thinking->len);
    }
    return r;
}

static int generate_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    const bool thinks = piece->kind == PIECE_REASONING;
    const struct str thinking = {.data = (char *)piece->text, .len = thinks ? piece->len : 0};
    struct ollama_choice *own = c->own;
    int r;

    if (!thinks && piece->kind != PIECE_TEXT)
        return 0;
    r = put_text(g, piece->text, thinks ? 0 : piece->len, &thinking);
    r = r < 0 ? r : ollama_put_logprobs(g, &own->logprobs);
    return r < 0 ? r : str_puts(&g->out, ",\"done\":false}\n");
}

static int generate_finish(struct generation *g, struct choice *c)
{
    (void)g;
    (void)c;
    return 0;
}

/* Writes the tokens of the prompt and of the answer, which a later request can send back. */
static int put_context(const struct generation *g, struct str *out)
{
    const struct prompt *prompt = &g->prompts[0];
    const struct ollama_own *own = g->own;
    int r = str_puts(out, ",\"context\":[");

    for (size_t i = 0; i < prompt->n_tokens && r == 0; i++)
        r = str_printf(out, i ? ",%d" : "%d", prompt->tokens[i]);
    if (r == 0 && own->tokens.len)
        r = str_append(out, own->tokens.data, own->tokens.len);
    return r < 0 ? r : str_putc(out, ']');
}

static int generate_end(struct generation *g)
{
    const struct ollama_own *own = g->own;
    struct choice *c = &g->choices[0];
    struct ollama_choice *of_choice = c->own;
    _cleanup_str_ struct str context = {};
    int r = own->raw ? 0 : put_context(g, &context);

    r = r < 0 ? r : put_text(g, c->text.data, c->text.len, &c->reasoning);
    r = r < 0 ? r : ollama_put_logprobs(g, &of_choice->logprobs);
    return r < 0 ? r : ollama_put_end(g, context.data);
}

const struct chat_api api_ollama_generate = {
    OLLAMA_SHARED,
    /* These members differ from those of /api/chat. */
    .id_prefix = "gen-",
    .prompt_field = "prompt",
    .read = generate_read,
    .prepare = generate_prepare,
    .tokens = generate_tokens,
    .piece = generate_piece,
    .finish = generate_finish,
    .end = generate_end,
};
