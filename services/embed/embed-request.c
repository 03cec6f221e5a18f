/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the requests of the embed service, from the body to the answer.
 *
 * No field stores the state of a request, because other fields show it. While the field `waiter` is
 * in use, the request waits for its model. While the field `job` is in use, a thread works on one
 * of its stages. While it has an embed_id, it is in the embedder.
 */
#include "embed/embed-request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/config.h"
#include "common/http/http.h"
#include "common/models/models.h"
#include "common/wire/fields.h"
#include "core/clock.h"
#include "embed/embed.h"

/* Answers with more floats are written by a preparer thread. */
#define CALL_INLINE_FLOATS 8192u

static void call_free_texts(struct call *c)
{
    for (size_t i = 0; c->encodings && i < c->n_texts; i++)
        free(c->encodings[i].ids);
    free(c->encodings);
    free(c->texts);
    c->encodings = NULL;
    c->texts = NULL;
}

static struct call *call_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct call, request);
}

static void call_done(struct model_request *request)
{
    struct call *c = call_of(request);

    call_free_texts(c);
    inf_embed_result_free(c->result);
    free(c->kept);
    inputs_done(&c->inputs);
    inputs_done(&c->more);
    json_decref(c->body);
    str_done(&c->out);
}

static void call_count(const struct model_request *request, uint64_t numbers[HISTORY_NUMBERS])
{
    numbers[HISTORY_PROMPT] = CONTAINER_OF(request, struct call, request)->n_tokens;
}

static void call_cancel(struct model_request *request)
{
    struct call *c = call_of(request);

    if (c->embed_id)
        inf_embedder_cancel(c->resident->embedder, c->embed_id);
}

/* --- the answer --- */

int call_put_usage(struct call *c)
{
    return str_printf(&c->out, "{\"prompt_tokens\":%llu,\"total_tokens\":%llu}",
                      (unsigned long long)c->n_tokens, (unsigned long long)c->n_tokens);
}

static void call_answer(struct model_request *request)
{
    struct call *c = call_of(request);

    token_vectors_drop(c);
    c->status = c->endpoint->answer(c);
    c->result = inf_embed_result_free(c->result);
}

static void call_answered(struct model_request *request)
{
    struct call *c = call_of(request);

    if (c->status < 0) {
        model_request_fail(&c->request, 503, "out_of_memory", "Out of memory.");
        return;
    }
    c->request.ended = true;
    c->embed->stats.n_answered++;
    http_respond(c->request.http, 200, "application/json", c->out.data, c->out.len);
}

static void call_begin_answer(struct call *c)
{
    if (c->result->n_vectors * c->result->width > CALL_INLINE_FLOATS) {
        model_request_work(&c->request, RESIDENT_LARGE, call_answer, call_answered);
        return;
    }
    call_answer(&c->request);
    call_answered(&c->request);
}

void call_on_result(struct call *c, struct inf_embed_result *result)
{
    c->embed_id = 0;
    c->embed->stats.n_texts += result->error < 0 ? 0 : result->n_texts;
    c->embed->stats.n_tokens += result->n_tokens;
    if (!model_request_is_wanted(&c->request)) {
        inf_embed_result_free(result);
    } else if (result->error < 0) {
        if (result->error == -ECANCELED)
            model_request_fail(&c->request, 503, "cancelled",
                               "The service is ending; try again later.");
        else if (result->error == -ESTALE)
            model_request_stale(&c->request);
        else
            model_request_fail(&c->request, 500, "model_failed", "The model failed: %s.",
                               strerror(-result->error));
        inf_embed_result_free(result);
    } else {
        c->result = result;
        call_begin_answer(c);
    }
    model_request_unref(&c->request);
}

/* --- computing --- */

static void submit_problem(const struct call *c, int r, const struct inf_err *err,
                           struct problem *problem)
{
    if (r == INF_EMBED_FULL) {
        problem_set(problem, 429, "queue_full", NULL,
                    "Too many texts are waiting for this model; try again later.");
        problem->retry_sec = 1;
    } else if (r == -E2BIG) {
        problem_set(problem, 400, "context_length_exceeded", NULL,
                    "This model takes texts of at most %u tokens.",
                    inf_embedder_max_tokens(c->resident->embedder));
    } else if (r == -EINVAL) {
        problem_set(problem, 400, "invalid_value", NULL, "The request cannot be run: %s.",
                    err->text);
    } else {
        problem_set(problem, 503, "model_failed", NULL, "The request cannot be run: %s.",
                    err->text[0] ? err->text : strerror(-r));
        problem->retry_sec = 1;
    }
}

static void call_submit(struct call *c)
{
    struct inf_err err = {};
    struct problem problem;
    const struct inf_embed_request request = {
        .texts = c->texts,
        .n_texts = c->n_texts,
        .task = inf_embedder_task(c->resident->embedder, c->i_task),
        .dimensions = c->params.dimensions,
        .normalize = c->params.normalize,
        .user = c,
    };
    const int r = inf_embedder_submit(c->resident->embedder, &request, &c->embed_id, &err);

    if (r == 0) {
        model_request_ref(&c->request);
        /* The embedder has copied the texts. The request may wait for a long time, so its own texts
         * are freed. */
        call_free_texts(c);
        return;
    }
    c->embed_id = 0;
    if (r == -ESTALE) {
        model_request_stale(&c->request);
        return;
    }
    submit_problem(c, r, &err, &problem);
    model_request_refuse(&c->request, &problem);
}

static void call_prepare(struct model_request *request)
{
    struct call *c = call_of(request);

    c->status = c->endpoint->prepare(c, &c->problem);
    for (size_t i = 0; c->status == 0 && i < c->n_texts; i++)
        c->n_tokens += c->texts[i].n_tokens;
    if (c->status == 0)
        c->status = token_vectors_prepare(c, &c->problem);
    /* Only answers to rankings contain the documents again. */
    if (!c->with_texts) {
        json_decref(c->body);
        c->body = NULL;
        c->params.model = NULL;
    }
}

static void call_prepared(struct model_request *request)
{
    struct call *c = call_of(request);

    if (c->status < 0) {
        model_request_refuse(&c->request, &c->problem);
    } else if (c->n_texts == 0) {
        c->status = c->endpoint->answer(c);
        call_answered(&c->request);
    } else {
        call_submit(c);
    }
}

static int check_dimensions(const struct call *c, struct problem *problem)
{
    const uint32_t width = inf_embedder_width(c->resident->embedder);

    if (c->params.dimensions > width)
        return problem_set(problem, 400, "invalid_value", "dimensions",
                           "Invalid value for 'dimensions': vectors of this model have only %u "
                           "numbers.",
                           width);
    if (c->params.dimensions == 0 || c->params.dimensions == width || c->may_be_shortened ||
        c->resident->matryoshka)
        return 0;
    return problem_set(problem, 400, "unsupported_parameter", "dimensions",
                       "It is not known that vectors of '%s' may be shortened (Matryoshka). Leave "
                       "'dimensions' out, or put \"matryoshka: true\" into a manifest of this "
                       "model if it was trained for that.",
                       c->resident->base.name);
}

static void call_ready(struct model_request *request)
{
    struct call *c = call_of(request);

    c->resident = embed_resident_of(request->resident);
    c->ready_usec = clock_usec();
    if (c->has_keep)
        model_request_keep(request, c->keep_usec);
    if (check_dimensions(c, &c->problem) < 0 || adapter_find_task(c, &c->problem) < 0)
        model_request_refuse(request, &c->problem);
    else
        model_request_work(request, request->lane, call_prepare, call_prepared);
}

/* --- the body, and the requested model --- */

static int no_default(const struct call *c, const struct models *models, struct problem *problem)
{
    const bool ranks = c->kind == INF_EMBED_SCORES;
    const char *kind = ranks ? "reranker" : "embedding model";
    const char *key = ranks ? "embed.default_reranker" : "embed.default_model";
    _cleanup_free_ char *names = models_names_of(models, ranks ? MODELS_RERANK : MODELS_EMBED);

    if (names && *names)
        return problem_set(problem, 400, "missing_field", "model",
                           "Missing required parameter: 'model'. No default is chosen either (%s); "
                           "installed: %.300s.",
                           key, names);
    return problem_set(problem, 404, ranks ? "no_reranker" : "no_embedding_model", "model",
                       "No %s is installed here. Put one into a model directory (`sconce list` "
                       "shows what is there), and name it in the request or as %s in the "
                       "configuration.",
                       kind, key);
}

static const struct models_entry *find_model(const struct call *c, struct problem *problem)
{
    const struct config *config = c->request.host->config;
    const bool ranks = c->kind == INF_EMBED_SCORES;
    const char *name = c->params.model ? c->params.model
                       : ranks         ? config->embed.default_reranker
                                       : config->embed.default_model;
    const struct models *models = model_host_list(c->request.host, name, problem);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models)
        return NULL;
    entry = name ? models_find(models, name)
                 : models_only(models, ranks ? MODELS_RERANK : MODELS_EMBED);
    if (entry || (name && model_host_is_broken(models, name, problem)))
        return entry;
    if (!name) {
        no_default(c, models, problem);
        return NULL;
    }
    names = models_names(models);
    problem_set(problem, 404, "model_not_found", "model",
                "The model '%.100s'%s does not exist here. Installed: %.300s.", name,
                c->params.model ? "" : ", which the configuration makes the default,",
                names && *names ? names : "none");
    return NULL;
}

static int read_body(struct call *c, struct http_text body, struct problem *problem)
{
    if (fields_parse(body.data, body.len, &c->body, problem) < 0 ||
        fields_known(c->body, "", c->endpoint->fields, problem) < 0 ||
        params_read_model(&c->params, c->body, problem) < 0)
        return -EINVAL;
    return c->endpoint->read(c, problem);
}

static void call_read(struct model_request *request, struct http_text body)
{
    struct call *c = call_of(request);

    c->status = read_body(c, body, &c->problem);
    if (c->status < 0) {
        json_decref(c->body);
        c->body = NULL;
    }
}

static void call_was_read(struct model_request *request)
{
    struct call *c = call_of(request);
    const struct models_entry *entry;

    if (c->tei && http_request_errors(request->http) != &errors_ollama)
        http_request_set_errors(request->http, &errors_tei);
    if (c->status < 0 || !(entry = find_model(c, &c->problem))) {
        model_request_refuse(request, &c->problem);
        return;
    }
    c->may_be_shortened = entry->matryoshka;
    model_request_want(request, entry, &c->kind);
}

void call_new(struct model_host *host, const void *endpoint, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct call),
        .ready = call_ready,
        .cancel = call_cancel,
        .count = call_count,
        .done = call_done,
    };
    struct model_request *request = model_request_new(host, &ops, http);
    struct call *c = call_of(request);

    if (!request)
        return;
    c->embed = CONTAINER_OF(host, struct embed, host);
    c->endpoint = endpoint;
    c->kind = c->endpoint->kind;
    if (model_request_admit(request))
        model_request_read(request, call_read, call_was_read);
}
