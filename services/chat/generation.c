/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves requests that need a model, from the body to the last byte of the answer.
 *
 * No field stores the state of a request, because other fields show it. While the field `waiter` is
 * in use, the request waits for its model. While the field `job` is in use, the request is being
 * read or prepared. While a prompt has an `engine_id`, the engine computes the request.
 */
#include "chat/generation.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>
#include <time.h>

#include "chat/choice.h"
#include "common/config/config.h"
#include "common/http/sse.h"
#include "common/models/models.h"
#include "common/wire/fields.h"
#include "core/clock.h"

static struct generation *generation_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct generation, request);
}

static void prompt_done(struct prompt *prompt)
{
    free(prompt->tokens);
    free(prompt->text);
}

static void generation_done(struct model_request *request)
{
    struct generation *g = generation_of(request);

    for (size_t i = 0; i < g->n_prompts; i++)
        prompt_done(&g->prompts[i]);
    for (size_t i = 0; i < g->n_choices; i++)
        choice_done(&g->choices[i]);
    if (g->own && g->api->done)
        g->api->done(g);
    free(g->own);
    free(g->prompts);
    free(g->choices);
    params_done(&g->params);
    conversation_done(&g->conversation);
    reply_done(&g->reply);
    inf_grammar_unref(g->grammar);
    free(g->channel_tokens);
    json_decref(g->body);
    str_done(&g->out);
}

static void generation_cancel(struct model_request *request)
{
    struct generation *g = generation_of(request);

    for (size_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].engine_id)
            inf_engine_cancel(g->resident->engine, g->prompts[i].engine_id);
}

static void generation_no_memory(struct generation *g)
{
    model_request_fail(&g->request, 503, "out_of_memory", "Out of memory.");
}

/* Runs every few seconds. Sends api->stream_pause until the first token, because clients or proxies
 * may close idle connections. */
static void generation_tick(struct model_request *request)
{
    const struct generation *g = generation_of(request);
    const char *pause = g->api->stream_pause;

    if (request->streaming && !g->first_usec && pause)
        http_response_write(request->http, pause, strlen(pause));
}

/* Sends the events with which the API ends a stream that fails. */
static void generation_failing(struct model_request *request, const struct problem *problem)
{
    struct generation *g = generation_of(request);

    if (!g->api->fail)
        return;
    str_clear(&g->out);
    if (g->api->fail(g, problem) == 0 && g->out.len)
        http_response_write(request->http, g->out.data, g->out.len);
}

static int generation_reserve_choices(struct generation *g)
{
    const size_t n = g->n_prompts * g->params.n;

    if (!n)
        return 0;
    g->choices = NEW(struct choice, n);
    if (!g->choices)
        return -ENOMEM;
    for (; g->n_choices < n; g->n_choices++)
        if (choice_init(&g->choices[g->n_choices], g, (uint32_t)g->n_choices,
                        &g->prompts[g->n_choices / g->params.n]) < 0)
            return -ENOMEM;
    return 0;
}

/* Sends g->out if the answer is a stream. @r is the result of the function that wrote g->out; the
 * request fails if @r is negative. */
static void generation_send(struct generation *g, int r)
{
    if (r == 0 && g->request.streaming && g->out.len)
        r = http_response_write(g->request.http, g->out.data, g->out.len);
    if (g->request.streaming)
        str_clear(&g->out);
    if (r < 0)
        generation_no_memory(g);
}

static void generation_end(struct generation *g)
{
    struct http_request *http = g->request.http;
    const char *end = g->api->stream_end;
    int r = g->api->end(g);

    if (r == 0 && g->request.streaming && end)
        r = str_puts(&g->out, end);
    if (r < 0) {
        generation_no_memory(g);
        return;
    }
    g->request.ended = true;
    if (!g->request.streaming) {
        http_respond(http, 200, "application/json", g->out.data, g->out.len);
        return;
    }
    model_request_ref(&g->request);
    if (http_response_write(http, g->out.data, g->out.len) < 0)
        http_response_abort(http, NULL, 0);
    else
        http_response_end(http);
    model_request_unref(&g->request);
}

static void generation_save(struct model_request *request)
{
    struct generation *g = generation_of(request);

    g->api->save(g);
}

static void generation_saved(struct model_request *request)
{
    generation_end(generation_of(request));
}

/* Ends the answer when all choices ended. */
static void generation_complete(struct generation *g)
{
    if (g->saves)
        model_request_aside(&g->request, &g->chat->keeping, generation_save, generation_saved);
    else
        generation_end(g);
}

uint32_t generation_max_tokens(const struct generation *g)
{
    const struct config *config = g->request.host->config;
    const uint32_t wanted = g->params.max_tokens ? g->params.max_tokens : config->chat.max_tokens;
    const uint32_t most = config->chat.most_tokens;

    return most && (!wanted || wanted > most) ? most : wanted;
}

/* Writes the tokens that end an answer: those of the request and those of the reply format. Returns
 * their number. */
static size_t generation_stop_tokens(const struct generation *g, int32_t *stops)
{
    const struct params *p = &g->params;

    memcpy(stops, p->stop_tokens, p->n_stop_tokens * sizeof(*stops));
    memcpy(stops + p->n_stop_tokens, g->tokens.stops, g->tokens.n_stops * sizeof(*stops));
    return p->n_stop_tokens + g->tokens.n_stops;
}

static int generation_submit_one(struct generation *g, struct prompt *prompt)
{
    struct inf_err err = {};
    struct problem problem;
    const struct params *p = &g->params;
    int32_t stops[PARAMS_MAX_STOPS + REPLY_MAX_TOKENS];
    const size_t n_stops = generation_stop_tokens(g, stops);
    const struct inf_request request = {
        .tokens = prompt->tokens,
        .n_tokens = prompt->n_tokens,
        .max_tokens = p->score_only ? 1 : generation_max_tokens(g),
        .n_choices = p->n,
        .sampling = p->sampling,
        .stops = p->stops,
        .n_stops = p->n_stops,
        .ignore_eos = p->ignore_eos,
        .grammar = g->grammar,
        .channel = g->channel,
        .min_tokens = p->min_tokens,
        .stop_tokens = stops,
        .n_stop_tokens = n_stops,
        .show_special = p->show_special,
        .shown_tokens = g->tokens.shown,
        .n_shown_tokens = g->tokens.n_shown,
        .n_logprobs = p->n_logprobs,
        .post_logprobs = p->post_logprobs,
        .n_draft = p->n_draft,
        .min_draft = p->min_draft,
        .draft_p_min = (float)p->draft_p_min,
        .prompt_logprobs = p->prompt_logprobs,
        .progress = p->with_progress && p->stream && g->api->progress,
        .no_cache = p->no_cache || tenant_is_alone(g->tenant),
        .cache_tenant = g->tenant,
        .cache_salt = json_string_value(p->cache_salt),
        .cache_salt_len = json_string_length(p->cache_salt),
        .session = g->session[0] ? g->session : NULL,
        .user = g,
    };
    int r;

    prompt->start_usec = clock_usec();
    r = inf_engine_submit(g->resident->engine, &request, &prompt->engine_id, &err);

    if (r == 0) {
        model_request_ref(&g->request);
        return 0;
    }
    prompt->engine_id = 0;
    if (r == -ESTALE) {
        model_request_stale(&g->request);
        return -EINVAL;
    }
    if (r == INF_ENGINE_FULL) {
        problem_set(&problem, 429, "queue_full", NULL,
                    "Too many requests are waiting for this model; try again later.");
        problem.retry_sec = 1;
    } else if (r == -E2BIG) {
        generation_context_problem(g, prompt->n_tokens, false, &problem);
    } else if (r == -EINVAL) {
        problem_set(&problem, 400, "invalid_value", NULL, "The request cannot be run: %s.",
                    err.text);
    } else {
        problem_set(&problem, 503, "engine_failed", NULL, "The request cannot be run: %s.",
                    err.text[0] ? err.text : strerror(-r));
        problem.retry_sec = 1;
    }
    model_request_refuse(&g->request, &problem);
    return -EINVAL;
}

static void generation_submit(struct generation *g)
{
    if (generation_reserve_choices(g) < 0) {
        generation_no_memory(g);
        return;
    }
    for (size_t i = 0; i < g->n_prompts; i++) {
        if (generation_submit_one(g, &g->prompts[i]) < 0)
            return;
        g->chat->stats.n_prompt_tokens += g->prompts[i].n_tokens;
    }
    /* The engine has its own references to the grammar. */
    g->grammar = inf_grammar_unref(g->grammar);
    if (g->params.stream) {
        stream_begin(g->request.http, g->api->stream_type);
        g->request.streaming = true;
        generation_send(g, g->api->begin(g));
    }
    if (!g->n_prompts && model_request_is_wanted(&g->request))
        generation_complete(g);
}

/* Frees the data from which the prompts were made. The data are not needed while the answer is
 * generated, which may take long. */
static void generation_drop_body(struct generation *g)
{
    json_decref(g->body);
    g->body = NULL;
    g->params.model = g->params.kv_type = NULL;
    conversation_done(&g->conversation);
}

/* Keeps the text of the first prompt for the answer. */
static int generation_keep_text(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    struct prompt *p = g->prompts;

    return p && !p->text &&
                   inf_tokenizer_decode(tok, p->tokens, p->n_tokens, true, &p->text, &p->text_len) <
                       0
               ? problem_no_memory(problem)
               : 0;
}

static void generation_prepare(struct model_request *request)
{
    struct generation *g = generation_of(request);

    g->status = g->api->prepare(g, &g->problem);
    if (g->status == 0 && g->params.with_prompt)
        g->status = generation_keep_text(g, &g->problem);
    generation_drop_body(g);
}

/* Runs in the thread of the event loop after generation_prepare(). Submits the prompts, or sends
 * the answer or the problem. */
static void generation_prepared(struct model_request *request)
{
    struct generation *g = generation_of(request);

    if (g->status < 0) {
        model_request_refuse(&g->request, &g->problem);
    } else if (g->api->computes_only || (!g->n_prompts && g->out.len)) {
        g->request.ended = true;
        http_respond(g->request.http, 200, "application/json", g->out.data, g->out.len);
    } else {
        generation_submit(g);
    }
}

static void generation_ready(struct model_request *request)
{
    struct generation *g = generation_of(request);

    g->resident = chat_resident_of(request->resident);
    if (g->params.has_keep)
        model_request_keep(request, g->params.keep_usec);
    params_resolve(&g->params, &g->manifest, &g->resident->sampling, request->host->config,
                   g->api->sampling);
    params_add_own_stops(&g->params, g->resident->base.settings.stops);
    if (params_check_vocab(&g->params, inf_model_info(request->resident->model)->n_vocab,
                           &g->problem) < 0) {
        model_request_refuse(request, &g->problem);
    } else {
        model_request_work(request, request->lane, generation_prepare, generation_prepared);
    }
}

static void generation_read(struct model_request *request, struct http_text body)
{
    struct generation *g = generation_of(request);

    g->status = fields_parse(body.data, body.len, &g->body, &g->problem);
    if (g->status == 0)
        g->status = g->api->read(g, &g->problem);
    if (g->status < 0) {
        json_decref(g->body);
        g->body = NULL;
    }
}

/* Answers a request that only unloads its model. */
static void generation_unload(struct generation *g, const struct models_entry *entry)
{
    struct residents *pool = &g->request.host->residents;
    const struct resident *loaded = residents_find(pool, entry->name);

    g->params.in_use = loaded && loaded->n_users > 0;
    if (g->params.by_command || g->request.host->config->max_keep_alive_usec)
        residents_unload(pool, entry->name, g->params.by_command);
    generation_prepare(&g->request);
    generation_prepared(&g->request);
}

/* Requests the model, after the body was read and further data were loaded. */
static void generation_want(struct model_request *request)
{
    struct generation *g = generation_of(request);
    const struct models_entry *entry;

    if (g->status < 0 || !(entry = generation_find_model(g, &g->problem))) {
        model_request_refuse(request, &g->problem);
        return;
    }
    if (g->api->any_service && generation_send_elsewhere(g, entry, &g->problem)) {
        model_request_refuse(request, &g->problem);
        return;
    }
    if (g->params.unloads) {
        generation_unload(g, entry);
        return;
    }
    g->manifest = entry->sampling;
    model_request_want(request, entry, g->api->computes_only ? "any" : g->params.kv_type);
}

static void generation_load(struct model_request *request)
{
    struct generation *g = generation_of(request);

    g->status = g->api->load(g, &g->problem);
}

static void generation_was_read(struct model_request *request)
{
    struct generation *g = generation_of(request);

    if (g->status == 0 && g->loads)
        model_request_aside(request, &g->chat->keeping, generation_load, generation_want);
    else
        generation_want(request);
}

void generation_new(struct model_host *host, const void *api, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct generation),
        .ready = generation_ready,
        .cancel = generation_cancel,
        .tick = generation_tick,
        .failing = generation_failing,
        .count = generation_numbers,
        .done = generation_done,
    };
    const struct chat_api *own_api = api;
    struct model_request *request;
    struct generation *g;

    if (own_api->take) {
        own_api->take(host, http);
        return;
    }
    request = model_request_new(host, &ops, http);
    g = generation_of(request);
    if (!request)
        return;
    g->chat = CONTAINER_OF(host, struct chat, host);
    g->api = api;
    g->created = time(NULL);
    params_init(&g->params);
    tenant_take(http, g->tenant);
    request_id_new(g->api->id_prefix, g->id);
    g->own = calloc(1, MAX(g->api->own_size, (size_t)1));
    if (!g->own) {
        generation_no_memory(g);
    } else if (session_id_take(http, g->session) < 0) {
        problem_set(&g->problem, 400, "invalid_value", "X-Session-Id", "%s", SESSION_ID_RULE);
        model_request_refuse(request, &g->problem);
    } else if (model_request_admit(request)) {
        model_request_read(request, generation_read, generation_was_read);
    }
}

static void generation_finish(struct generation *g, struct choice *c, const struct inf_event *event)
{
    const enum inf_finish finish =
        c->is_cut || (event->finish == INF_FINISH_CANCELLED && c->prompt->is_cut)
            ? INF_FINISH_LENGTH
            : event->finish;
    int r;

    switch (finish) {
    case INF_FINISH_STOP:
        c->finish = FINISH_STOP;
        g->chat->stats.n_finished_stop++;
        break;
    case INF_FINISH_STOP_TEXT:
        if (event->stop_index >= g->params.n_given_stops) {
            c->finish = FINISH_STOP;
            g->chat->stats.n_finished_stop++;
            break;
        }
        c->finish = FINISH_STOP_TEXT;
        c->stop_text = json_string_value(g->params.stop_texts[event->stop_index]);
        g->chat->stats.n_finished_stop++;
        break;
    case INF_FINISH_LENGTH:
        c->finish = FINISH_LENGTH;
        g->chat->stats.n_finished_length++;
        break;
    case INF_FINISH_CANCELLED:
        model_request_fail(&g->request, 503, "cancelled",
                           "The service is ending; try again later.");
        return;
    case INF_FINISH_STALE:
        model_request_stale(&g->request);
        return;
    default:
        model_request_fail(&g->request, 500, "engine_failed", "The model failed: %s.",
                           event->error ? event->error : "no reason was given");
        return;
    }
    c->n_generated = event->n_generated;
    c->n_accepted = event->n_draft_accepted;
    c->n_rejected = event->n_draft_rejected;
    if (g->params.score_only) {
        c->n_generated = 0;
        c->finish = FINISH_LENGTH;
    }
    g->n_finished++;
    r = choice_end(c);
    generation_send(g, r < 0 ? r : g->api->finish(g, c));
}

static void generation_first_token(struct generation *g)
{
    if (g->first_usec)
        return;
    g->first_usec = clock_usec();
    metrics_observe(&g->chat->stats.first_token, model_request_seconds(&g->request));
}

static struct prompt *generation_prompt_of(struct generation *g, uint64_t engine_id)
{
    for (size_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].engine_id == engine_id)
            return &g->prompts[i];
    return NULL;
}

/* Gives the tokens of an event to the API. Writes the text of the event as events of the stream, or
 * collects it in the choice. */
static int generation_write(struct generation *g, struct choice *c, const struct inf_event *event)
{
    int r = 0;

    if (c->is_cut || (event->kind == INF_EVENT_TOKENS && g->params.score_only))
        return 0;
    if (g->api->tokens)
        r = g->api->tokens(g, c, event);
    return r < 0 || event->kind != INF_EVENT_TOKENS ? r : choice_take(c, event);
}

static void generation_count(struct generation *g, const struct prompt *prompt,
                             const struct inf_event *event)
{
    struct chat_stats *s = &g->chat->stats;

    s->n_most_tokens = MAX(s->n_most_tokens, prompt->n_tokens + event->n_generated);
    if (prompt->computed_usec)
        s->generation_seconds += (double)(clock_usec() - prompt->computed_usec) / 1e6;
}

/* Reports the progress of a prompt. The first progress of a prompt tells when its computation
 * begins. */
static void generation_progress(struct generation *g, struct choice *c,
                                const struct inf_event *event)
{
    struct prompt *prompt = c->prompt;

    if (!prompt->progress_usec)
        prompt->start_usec = clock_usec();
    prompt->progress_usec = clock_usec();
    prompt->n_processed = event->n_computed - MIN(event->n_cached, event->n_computed);
    generation_send(g, g->api->progress(g, c));
}

void generation_on_event(struct generation *g, const struct inf_event *event)
{
    struct prompt *prompt = generation_prompt_of(g, event->request);
    struct choice *c;

    assert(prompt);
    prompt->n_cached = event->n_cached;
    if (event->kind == INF_EVENT_FINISH) {
        g->chat->stats.n_generated_tokens += event->n_generated;
        generation_count(g, prompt, event);
        if (event->choice == 0)
            g->chat->stats.n_cached_tokens += event->n_cached;
    }
    if (model_request_is_wanted(&g->request)) {
        c = &g->choices[(size_t)(prompt - g->prompts) * g->params.n + event->choice];
        if (event->kind == INF_EVENT_PROGRESS) {
            generation_progress(g, c, event);
        } else if (event->kind == INF_EVENT_FINISH) {
            generation_finish(g, c, event);
        } else {
            generation_first_token(g);
            choice_note_time(c, event);
            generation_send(g, generation_write(g, c, event));
        }
    }
    if (event->kind != INF_EVENT_FINISH || !event->last)
        return;
    prompt->engine_id = 0;
    if (model_request_is_wanted(&g->request) && g->n_finished == g->n_choices)
        generation_complete(g);
    model_request_unref(&g->request);
}

const char *generation_finish_word(const struct generation *g, const struct choice *c)
{
    return g->api->finishes[c->finish];
}
