/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a request are told by what it holds: a waiter, a job, submitted prompts. */
#include "chat/generation.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/fields.h"
#include "common/config.h"
#include "common/json.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "common/sse.h"
#include "core/clock.h"

/* A loading model may take so long before its requests are sent away. */
#define GENERATION_LOAD_USEC (120 * 1000000u)
/* Silence of a stream before a comment is sent. */
#define GENERATION_KEEPALIVE_USEC (5 * 1000000u)
/* Bodies above this are rendered and tokenized beside the loop. */
#define GENERATION_INLINE_BODY 16384

static void generation_unref(struct generation *g)
{
    struct chat *chat = g->chat;

    if (--g->n_refs > 0)
        return;
    loop_timer_stop(chat->loop, &g->timer);
    if (g->prev)
        g->prev->next = g->next;
    else
        chat->generations = g->next;
    if (g->next)
        g->next->prev = g->prev;
    chat->n_generations--;
    if (g->resident)
        resident_release(g->resident);
    for (size_t i = 0; i < g->n_prompts; i++)
        free(g->prompts[i].tokens);
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
    free(g);
    service_touch(chat->service);
}

static void generation_cancel(struct generation *g)
{
    for (size_t i = 0; i < g->n_prompts; i++)
        if (g->prompts[i].engine_id)
            inf_engine_cancel(g->resident->engine, g->prompts[i].engine_id);
}

static void generation_log(const struct generation *g)
{
    const struct http_text path = http_request_path(g->http);
    char path_text[128];

    snprintf(path_text, sizeof(path_text), "%.*s", (int)MIN(path.len, 127u), path.data);
    log_request(&(struct log_access){
        .id = g->request_id,
        .method = "POST",
        .path = path_text,
        .status = http_request_status(g->http),
        .bytes = http_request_bytes(g->http),
        .duration_usec = clock_usec() - g->start_usec,
        .note = g->failed                      ? "failed"
                : http_request_failed(g->http) ? "client left"
                                               : NULL,
    });
}

static void generation_http_done(void *user)
{
    struct generation *g = user;

    generation_log(g);
    metrics_observe(&g->chat->stats.duration, (double)(clock_usec() - g->start_usec) / 1e6);
    if (!g->ended && !g->failed)
        g->chat->stats.n_cancelled++;
    g->http = NULL;
    loop_timer_stop(g->chat->loop, &g->timer);
    resident_forget(&g->waiter);
    generation_cancel(g);
    generation_unref(g);
}

static const struct http_request_events generation_http_events = {.done = generation_http_done};

/* Ends the HTTP side; everything else is cancelled by what follows from that. */
static void generation_refuse(struct generation *g, const struct problem *problem)
{
    struct http_request *http = g->http;

    if (g->ended || g->failed)
        return;
    g->failed = true;
    if (problem->status == 429 || problem->status == 503)
        g->chat->stats.n_refused++;
    else
        g->chat->stats.n_failed++;
    generation_cancel(g);
    if (!http)
        return;
    /* `done` may come at once and must not free what the caller still uses. */
    g->n_refs++;
    if (g->streaming)
        sse_fail(http, problem->status, problem->code, problem->message);
    else
        problem_send(problem, http);
    generation_unref(g);
}

void generation_fail(struct generation *g, int status, const char *code, const char *format, ...)
{
    struct problem problem;
    char message[sizeof(problem.message)];
    va_list ap;

    va_start(ap, format);
    vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    problem_set(&problem, status, code, NULL, "%s", message);
    if (status == 503)
        problem.retry_sec = 5;
    generation_refuse(g, &problem);
}

static void generation_on_timer(struct loop_timer *timer)
{
    struct generation *g = timer->data;
    const uint64_t now = clock_usec();

    if (!g->http)
        return;
    if (g->waiter.resident && now >= g->start_usec + GENERATION_LOAD_USEC) {
        generation_fail(g, 503, "model_loading",
                        "The model is still being loaded; try again later.");
        return;
    }
    if (g->deadline_usec && now >= g->deadline_usec) {
        generation_fail(g, 408, "timeout", "The request took longer than this server allows.");
        return;
    }
    if (g->streaming && !g->first_token)
        sse_comment(g->http);
    loop_timer_set(g->chat->loop, timer,
                   g->deadline_usec ? MIN(g->deadline_usec - now, GENERATION_KEEPALIVE_USEC)
                                    : GENERATION_KEEPALIVE_USEC);
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

/* Sends what the endpoint wrote into g->out, when it is a stream. */
static void generation_send(struct generation *g, int r)
{
    if (r == 0 && g->streaming && g->out.len)
        r = http_response_write(g->http, g->out.data, g->out.len);
    if (g->streaming)
        str_clear(&g->out);
    if (r < 0)
        generation_fail(g, 503, "out_of_memory", "Out of memory.");
}

static void generation_end(struct generation *g)
{
    struct http_request *http = g->http;
    const int r = g->endpoint->end(g);

    if (r < 0) {
        generation_fail(g, 503, "out_of_memory", "Out of memory.");
        return;
    }
    g->ended = true;
    if (!g->streaming) {
        http_respond(http, 200, "application/json", g->out.data, g->out.len);
        return;
    }
    g->n_refs++;
    generation_send(g, 0);
    sse_done(http);
    generation_unref(g);
}

static void generation_context_problem(const struct generation *g, const struct prompt *prompt,
                                       struct problem *problem)
{
    problem_set(problem, 400, "context_length_exceeded",
                g->endpoint == &endpoint_chat ? "messages" : "prompt",
                "This model's maximum context length is %u tokens. However, your prompt has %zu "
                "tokens. Please reduce its length.",
                inf_engine_n_ctx(g->resident->engine), prompt->n_tokens);
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
                                      : g->chat->config->chat.max_tokens,
        .n_choices = g->params.n,
        .sampling = g->params.sampling,
        .stops = g->params.stops,
        .n_stops = g->params.n_stops,
        .ignore_eos = g->params.ignore_eos,
        .show_special = g->params.show_special,
        .n_logprobs = g->n_logprobs,
        .prompt_logprobs = g->echo && g->n_logprobs >= 0,
        .no_cache = g->params.no_cache,
        .cache_tenant = g->tenant,
        .cache_salt = g->params.cache_salt,
        .cache_salt_len = g->params.cache_salt_len,
        .session = g->session[0] ? g->session : NULL,
        .user = g,
    };
    const int r = inf_engine_submit(g->resident->engine, &request, &prompt->engine_id, &err);

    if (r == 0) {
        g->n_refs++;
        return 0;
    }
    prompt->engine_id = 0;
    if (r == INF_ENGINE_FULL) {
        problem_set(&problem, 429, "queue_full", NULL,
                    "Too many requests are waiting for this model; try again later.");
        problem.retry_sec = 1;
    } else if (r == -E2BIG) {
        generation_context_problem(g, prompt, &problem);
    } else if (r == -EINVAL) {
        problem_set(&problem, 400, "invalid_value", NULL, "The request cannot be run: %s.",
                    err.text);
    } else {
        problem_set(&problem, 503, "engine_failed", NULL, "The request cannot be run: %s.",
                    err.text[0] ? err.text : strerror(-r));
        problem.retry_sec = 1;
    }
    generation_refuse(g, &problem);
    return -EINVAL;
}

static void generation_submit(struct generation *g)
{
    if (generation_reserve_choices(g) < 0) {
        generation_fail(g, 503, "out_of_memory", "Out of memory.");
        return;
    }
    for (size_t i = 0; i < g->n_prompts; i++) {
        if (generation_submit_one(g, &g->prompts[i]) < 0)
            return;
        g->chat->stats.n_prompt_tokens += g->prompts[i].n_tokens;
    }
    if (g->params.stream) {
        sse_begin(g->http);
        g->streaming = true;
        generation_send(g, g->endpoint->begin(g));
    }
}

/* With prompts, or a problem, at hand; on the loop again. */
static void generation_prepared(struct generation *g, int r)
{
    if (!g->http || g->failed)
        return;
    if (r < 0) {
        generation_refuse(g, &g->problem);
    } else if (!g->endpoint->generates) {
        g->ended = true;
        http_respond(g->http, 200, "application/json", g->out.data, g->out.len);
    } else {
        generation_submit(g);
    }
}

static void generation_job_run(struct job *job)
{
    struct generation *g = (struct generation *)((char *)job - offsetof(struct generation, job));

    g->problem.status = 0;
    if (g->endpoint->prepare(g, &g->problem) < 0)
        assert(g->problem.status);
}

static void generation_job_done(struct job *job)
{
    struct generation *g = (struct generation *)((char *)job - offsetof(struct generation, job));

    generation_prepared(g, g->problem.status ? -EINVAL : 0);
    generation_unref(g);
}

static void generation_ready(struct resident_waiter *waiter, struct resident *resident,
                             const struct problem *problem)
{
    struct generation *g =
        (struct generation *)((char *)waiter - offsetof(struct generation, waiter));

    if (!resident) {
        generation_refuse(g, problem);
        return;
    }
    g->resident = resident;
    if (params_check_vocab(&g->params, inf_model_info(resident->model)->n_vocab, &g->problem) < 0) {
        generation_refuse(g, &g->problem);
    } else if (http_request_body(g->http).len <= GENERATION_INLINE_BODY) {
        generation_prepared(g, g->endpoint->prepare(g, &g->problem));
    } else {
        g->job = (struct job){.run = generation_job_run, .done = generation_job_done};
        g->n_refs++;
        jobs_queue(g->chat->preparer, &g->job);
    }
}

static int generation_read(struct generation *g, struct problem *problem)
{
    const struct http_text body = http_request_body(g->http);
    const char *const *lists[] = {params_names, g->endpoint->fields};
    const char *names[96];
    struct inf_err err = {};
    size_t n = 0;
    int r;

    if (session_id_take(g->http, g->session) < 0)
        return problem_set(problem, 400, "invalid_value", "X-Session-Id", "%s", SESSION_ID_RULE);
    r = json_parse(body.data, body.len, &g->body, &err);
    if (r == -ENOMEM)
        return problem_set(problem, 503, "out_of_memory", NULL, "Out of memory.");
    if (r < 0)
        return problem_set(problem, 400, "invalid_json", NULL,
                           "The body of your request is not valid JSON: %s.", err.text);
    if (!json_is_object(g->body))
        return problem_set(problem, 400, "invalid_type", NULL,
                           "The body of your request must be a JSON object.");
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
    const struct models *models = chat_models(g->chat);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models) {
        problem_set(problem, 500, "models_unreadable", NULL,
                    "The list of installed models cannot be read; see the service's log.");
        return NULL;
    }
    if (!g->params.model) {
        entry = models_default(models, g->chat->config);
        if (!entry)
            problem_set(problem, 400, "missing_field", "model",
                        "Missing required parameter: 'model'.");
        return entry;
    }
    entry = models_find(models, g->params.model);
    if (entry)
        return entry;
    names = models_names(models);
    problem_set(problem, 404, "model_not_found", "model",
                "The model '%.100s' does not exist here. Installed: %.300s.", g->params.model,
                names && *names ? names : "none");
    return NULL;
}

void generation_new(struct chat *chat, const struct endpoint *endpoint,
                    struct http_request *request)
{
    struct generation *g = NEW(struct generation, 1);
    const struct models_entry *entry;
    struct problem problem;

    if (!g) {
        problem_set(&problem, 503, "out_of_memory", NULL, "Out of memory.");
        problem_send(&problem, request);
        return;
    }
    g->chat = chat;
    g->endpoint = endpoint;
    g->http = request;
    g->n_refs = 1;
    g->created = time(NULL);
    g->start_usec = http_request_start_usec(request);
    g->n_logprobs = -1;
    g->waiter.ready = generation_ready;
    g->timer = (struct loop_timer){.fire = generation_on_timer, .data = g};
    g->next = chat->generations;
    if (g->next)
        g->next->prev = g;
    chat->generations = g;
    chat->n_generations++;
    chat->stats.n_requests++;
    request_id_take(request, "req_", g->request_id);
    tenant_take(request, g->tenant);
    request_id_new(endpoint->id_prefix, g->id);
    http_request_set_events(request, &generation_http_events, g);
    if (generation_read(g, &problem) < 0 || !(entry = generation_find_model(g, &problem))) {
        generation_refuse(g, &problem);
        return;
    }
    if (chat->config->chat.request_timeout_usec)
        g->deadline_usec = g->start_usec + chat->config->chat.request_timeout_usec;
    loop_timer_set(chat->loop, &g->timer, GENERATION_KEEPALIVE_USEC);
    resident_want(chat, entry, g->endpoint->generates ? g->params.kv_type : "any", &g->waiter);
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
        generation_fail(g, 503, "cancelled", "The service is ending; try again later.");
        return;
    default:
        generation_fail(g, 500, "engine_failed", "The model failed: %s.",
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
    metrics_observe(&g->chat->stats.first_token, (double)(clock_usec() - g->start_usec) / 1e6);
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
    if (g->http && !g->failed) {
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
    if (g->http && !g->failed && g->n_finished == g->n_choices)
        generation_end(g);
    generation_unref(g);
}

int generation_add_tokens(struct generation *g, int32_t *tokens, size_t n_tokens,
                          struct problem *problem)
{
    struct prompt *prompts = realloc(g->prompts, (g->n_prompts + 1) * sizeof(*prompts));

    if (!prompts) {
        free(tokens);
        return problem_set(problem, 503, "out_of_memory", NULL, "Out of memory.");
    }
    g->prompts = prompts;
    g->prompts[g->n_prompts] = (struct prompt){.tokens = tokens, .n_tokens = n_tokens};
    g->n_prompts++;
    if (n_tokens >= inf_engine_n_ctx(g->resident->engine)) {
        generation_context_problem(g, &g->prompts[g->n_prompts - 1], problem);
        return -EINVAL;
    }
    return 0;
}

int generation_add_prompt(struct generation *g, const char *param, const char *text, size_t len,
                          unsigned flags, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->model);
    int32_t *tokens = NULL;
    size_t n = 0;
    int r;

    r = inf_tokenizer_encode(tok, text, len, flags, 0, &tokens, &n);
    if (r < 0)
        return problem_set(problem, 503, "out_of_memory", NULL, "Out of memory.");
    if (!n) {
        free(tokens);
        return problem_set(problem, 400, "empty_prompt", param, "'%s' is empty: it has no tokens.",
                           param);
    }
    return generation_add_tokens(g, tokens, n, problem);
}

struct usage generation_usage(const struct generation *g)
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

    r = r < 0 ? r : json_put_text(out, g->resident->name);
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
