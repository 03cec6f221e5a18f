/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves requests that generate text, from the body to the last byte of the answer.
 *
 * The state of a request follows from what it holds: a waiter, a job, or submitted prompts.
 */
#include "chat/generation.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>
#include <time.h>

#include "common/config/config.h"
#include "common/http/sse.h"
#include "common/models/models.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

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
    for (size_t i = 0; i < g->n_choices; i++) {
        str_done(&g->choices[i].text);
        str_done(&g->choices[i].logprobs);
        for (size_t k = 0; k < ARRAY_SIZE(g->choices[i].logprobs_more); k++)
            str_done(&g->choices[i].logprobs_more[k]);
    }
    free(g->prompts);
    free(g->choices);
    params_done(&g->params);
    json_decref(g->body);
    str_done(&g->head);
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

/* Before the first token, a comment is sent now and then, because idle connections may be
 * closed. */
static void generation_tick(struct model_request *request)
{
    if (request->streaming && !generation_of(request)->first_token)
        sse_comment(request->http);
}

static int generation_reserve_choices(struct generation *g)
{
    g->n_choices = g->n_prompts * g->params.n;
    g->choices = NEW(struct choice, g->n_choices);
    if (!g->choices) {
        g->n_choices = 0;
        return -ENOMEM;
    }
    for (size_t i = 0; i < g->n_choices; i++) {
        g->choices[i].index = (uint32_t)i;
        g->choices[i].prompt = &g->prompts[i / g->params.n];
    }
    return 0;
}

/* If the answer is a stream, sends what the endpoint wrote into g->out. */
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
    const int r = g->endpoint->end(g);

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
    generation_send(g, 0);
    sse_done(http);
    model_request_unref(&g->request);
}

/* @more: the prompt has even more tokens. */
static int generation_context_problem(const struct generation *g, size_t n_tokens, bool more,
                                      struct problem *problem)
{
    return problem_set(problem, 400, "context_length_exceeded",
                       g->endpoint == &endpoint_chat ? "messages" : "prompt",
                       "This model's maximum context length is %u tokens. However, your prompt has "
                       "%s%zu tokens. Please reduce its length.",
                       inf_engine_n_ctx(g->resident->engine), more ? "more than " : "", n_tokens);
}

static int generation_submit_one(struct generation *g, struct prompt *prompt)
{
    struct inf_err err = {};
    struct problem problem;
    const struct inf_request request = {
        .tokens = prompt->tokens,
        .n_tokens = prompt->n_tokens,
        .max_tokens = g->score_only   ? 1
                      : g->max_tokens ? g->max_tokens
                                      : g->request.host->config->chat.max_tokens,
        .n_choices = g->params.n,
        .sampling = g->params.sampling,
        .stops = g->params.stops,
        .n_stops = g->params.n_stops,
        .ignore_eos = g->params.ignore_eos,
        .show_special = g->params.show_special,
        .n_logprobs = g->n_logprobs,
        .prompt_logprobs = g->echo && g->n_logprobs >= 0,
        .no_cache = g->params.no_cache || tenant_is_alone(g->tenant),
        .cache_tenant = g->tenant,
        .cache_salt = g->params.cache_salt,
        .cache_salt_len = g->params.cache_salt_len,
        .session = g->session[0] ? g->session : NULL,
        .user = g,
    };
    const int r = inf_engine_submit(g->resident->engine, &request, &prompt->engine_id, &err);

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
    if (g->params.stream) {
        sse_begin(g->request.http);
        g->request.streaming = true;
        generation_send(g, g->endpoint->begin(g));
    }
}

/* Answers may take long, so most of the body is freed early, on a thread. Only fields that are
 * borrowed until the request is submitted are kept. */
static void generation_drop_body(struct generation *g)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(g->body, next, key, value)
    {
        if (strcmp(key, "stop") != 0 && strcmp(key, "cache_salt") != 0)
            json_object_del(g->body, key);
    }
    g->messages = g->documents = g->kwargs = NULL;
    g->params.model = g->params.kv_type = NULL;
}

static void generation_prepare(struct model_request *request)
{
    struct generation *g = generation_of(request);

    g->status = g->endpoint->prepare(g, &g->problem);
    generation_drop_body(g);
}

/* Continues with the prompts or a problem. */
static void generation_prepared(struct model_request *request)
{
    struct generation *g = generation_of(request);

    if (g->status < 0) {
        model_request_refuse(&g->request, &g->problem);
    } else if (!g->endpoint->generates) {
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
    if (params_check_vocab(&g->params, inf_model_info(request->resident->model)->n_vocab,
                           &g->problem) < 0) {
        model_request_refuse(request, &g->problem);
    } else {
        model_request_work(request, request->lane, generation_prepare, generation_prepared);
    }
}

static int generation_read_fields(struct generation *g, struct http_text body,
                                  struct problem *problem)
{
    const char *const *lists[] = {params_names, g->endpoint->fields};
    const char *names[96];
    size_t n = 0;
    int r;

    r = fields_parse(body.data, body.len, &g->body, problem);
    if (r < 0)
        return r;
    for (size_t i = g->endpoint->generates ? 0 : 1; i < ARRAY_SIZE(lists); i++)
        for (const char *const *name = lists[i]; *name; name++)
            names[n++] = *name;
    assert(n < ARRAY_SIZE(names));
    names[n] = NULL;
    r = fields_known(g->body, "", names, problem);
    if (r == 0)
        r = params_read(&g->params, g->body, problem);
    return r < 0 ? r : g->endpoint->read(g, problem);
}

static const struct models_entry *generation_find_model(struct generation *g,
                                                        struct problem *problem)
{
    const struct config *config = g->request.host->config;
    const char *name = g->params.model ? g->params.model : config->default_model;
    const struct models *models = model_host_list(g->request.host, name, problem);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models)
        return NULL;
    if (!g->params.model) {
        entry = models_default(models, config);
        if (!entry)
            problem_set(problem, 400, "missing_field", "model",
                        "Missing required parameter: 'model'.");
        return entry;
    }
    entry = models_find(models, g->params.model);
    if (entry || model_host_is_broken(models, g->params.model, problem))
        return entry;
    names = models_names(models);
    problem_set(problem, 404, "model_not_found", "model",
                "The model '%.100s' does not exist here. Installed: %.300s.", g->params.model,
                names && *names ? names : "none");
    return NULL;
}

static void generation_read(struct model_request *request, struct http_text body)
{
    struct generation *g = generation_of(request);

    g->status = generation_read_fields(g, body, &g->problem);
    if (g->status < 0) {
        json_decref(g->body);
        g->body = NULL;
    }
}

static void generation_was_read(struct model_request *request)
{
    struct generation *g = generation_of(request);
    const struct models_entry *entry;

    if (g->status < 0 || !(entry = generation_find_model(g, &g->problem)))
        model_request_refuse(request, &g->problem);
    else
        model_request_want(request, entry, g->endpoint->generates ? g->params.kv_type : "any");
}

void generation_new(struct model_host *host, const void *endpoint, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct generation),
        .ready = generation_ready,
        .cancel = generation_cancel,
        .tick = generation_tick,
        .done = generation_done,
    };
    struct model_request *request = model_request_new(host, &ops, http);
    struct generation *g = generation_of(request);

    if (!request)
        return;
    g->chat = CONTAINER_OF(host, struct chat, host);
    g->endpoint = endpoint;
    g->created = time(NULL);
    g->n_logprobs = -1;
    tenant_take(http, g->tenant);
    request_id_new(g->endpoint->id_prefix, g->id);
    if (session_id_take(http, g->session) < 0) {
        problem_set(&g->problem, 400, "invalid_value", "X-Session-Id", "%s", SESSION_ID_RULE);
        model_request_refuse(request, &g->problem);
    } else if (model_request_admit(request)) {
        model_request_read(request, generation_read, generation_was_read);
    }
}

static void generation_finish(struct generation *g, struct choice *c, const struct inf_event *event)
{
    switch (event->finish) {
    case INF_FINISH_STOP:
    case INF_FINISH_STOP_TEXT:
        c->finish = "stop";
        g->chat->stats.n_finished_stop++;
        break;
    case INF_FINISH_LENGTH:
        c->finish = "length";
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
    c->n_generated = g->score_only ? 0 : event->n_generated;
    g->n_finished++;
    generation_send(g, g->endpoint->finish(g, c));
}

static void generation_first_token(struct generation *g)
{
    if (g->first_token)
        return;
    g->first_token = true;
    metrics_observe(&g->chat->stats.first_token, model_request_seconds(&g->request));
}

static struct prompt *generation_prompt_of(struct generation *g, uint64_t engine_id)
{
    for (size_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].engine_id == engine_id)
            return &g->prompts[i];
    return NULL;
}

void generation_on_event(struct generation *g, const struct inf_event *event)
{
    struct prompt *prompt = generation_prompt_of(g, event->request);
    struct choice *c;

    assert(prompt);
    prompt->n_cached = event->n_cached;
    if (event->kind == INF_EVENT_FINISH) {
        g->chat->stats.n_generated_tokens += event->n_generated;
        if (event->choice == 0)
            g->chat->stats.n_cached_tokens += event->n_cached;
    }
    if (model_request_is_wanted(&g->request)) {
        c = &g->choices[(size_t)(prompt - g->prompts) * g->params.n + event->choice];
        if (event->kind == INF_EVENT_FINISH) {
            generation_finish(g, c, event);
        } else {
            generation_first_token(g);
            if (event->kind == INF_EVENT_PROMPT || !g->score_only)
                generation_send(g, g->endpoint->tokens(g, c, event));
        }
    }
    if (event->kind != INF_EVENT_FINISH || !event->last)
        return;
    prompt->engine_id = 0;
    if (model_request_is_wanted(&g->request) && g->n_finished == g->n_choices)
        generation_end(g);
    model_request_unref(&g->request);
}

int generation_add_tokens(struct generation *g, int32_t *tokens, size_t n_tokens,
                          struct problem *problem)
{
    struct prompt *prompts = realloc(g->prompts, (g->n_prompts + 1) * sizeof(*prompts));

    if (!prompts) {
        free(tokens);
        return problem_no_memory(problem);
    }
    g->prompts = prompts;
    g->prompts[g->n_prompts] = (struct prompt){.tokens = tokens, .n_tokens = n_tokens};
    g->n_prompts++;
    if (n_tokens >= inf_engine_n_ctx(g->resident->engine))
        return generation_context_problem(g, n_tokens, false, problem);
    return 0;
}

int generation_add_prompt(struct generation *g, const char *param, const char *text, size_t len,
                          unsigned flags, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const size_t max = inf_engine_n_ctx(g->resident->engine) - 1;
    struct inf_encoding e = {0};
    const int r = inf_tokenizer_encode_texts(tok, &(struct inf_encode_text){text, len}, NULL, flags,
                                             INF_CUT_NONE, max, &e);

    if (r == -E2BIG)
        return generation_context_problem(g, max, true, problem);
    if (r < 0)
        return problem_no_memory(problem);
    if (!e.n) {
        free(e.ids);
        return problem_set(problem, 400, "empty_prompt", param, "'%s' is empty: it has no tokens.",
                           param);
    }
    return generation_add_tokens(g, e.ids, e.n, problem);
}

static struct usage generation_usage(const struct generation *g)
{
    struct usage usage = {};

    for (size_t i = 0; i < g->n_prompts; i++) {
        usage.n_prompt += g->prompts[i].n_tokens;
        usage.n_cached += g->prompts[i].n_cached;
    }
    for (size_t i = 0; i < g->n_choices; i++)
        usage.n_generated += g->choices[i].n_generated;
    return usage;
}

static int generation_word_head(const struct generation *g, const char *object, struct str *out)
{
    int r = str_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", g->id,
                       object, (long long)g->created);

    r = r < 0 ? r : json_put_text(out, g->resident->base.name);
    return r < 0 ? r
                 : str_printf(out, ",\"system_fingerprint\":\"%s\",\"choices\":[",
                              g->resident->fingerprint);
}

int generation_put_head(struct generation *g, const char *object)
{
    int r = g->head.len ? 0 : generation_word_head(g, object, &g->head);

    if (r < 0)
        str_clear(&g->head);
    return r < 0 ? r : str_append(&g->out, g->head.data, g->head.len);
}

int generation_put_usage(const struct generation *g, struct str *out)
{
    const struct usage u = generation_usage(g);

    return str_printf(out,
                      "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":%llu,\"audio_tokens\":0},"
                      "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,"
                      "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}",
                      (unsigned long long)u.n_prompt, (unsigned long long)u.n_generated,
                      (unsigned long long)(u.n_prompt + u.n_generated),
                      (unsigned long long)u.n_cached);
}
