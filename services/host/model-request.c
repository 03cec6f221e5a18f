/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles requests that need a model, from their arrival to their end.
 *
 * No field stores the state of a request, because other fields show it. While the field `waiter` is
 * in use, the request waits for its model. While it has a resident, it uses this model. Fields of
 * the service's structure may show more.
 */
#include "host/model-request.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/config/config.h"
#include "common/http/access-line.h"
#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/service/service.h"
#include "common/wire/elsewhere.h"
#include "core/clock.h"
#include "host/model-host.h"

/* A request that still waits for its model this long after its arrival is refused. */
#define REQUEST_LOAD_USEC (120 * 1000000u)
#define REQUEST_TICK_USEC (5 * 1000000u)
/* A body with more bytes than this is read by a preparer thread, so that it does not delay the
 * loop. */
#define REQUEST_SMALL_BODY 16384u

static void request_link(struct model_request *request)
{
    struct model_host *host = request->host;

    request->next = host->requests;
    if (request->next)
        request->next->prev = request;
    host->requests = request;
    host->n_requests++;
}

static void request_unlink(struct model_request *request)
{
    struct model_host *host = request->host;

    if (request->prev)
        request->prev->next = request->next;
    else
        host->requests = request->next;
    if (request->next)
        request->next->prev = request->prev;
    host->n_requests--;
}

void model_request_unref(struct model_request *request)
{
    struct model_host *host = request->host;

    assert(request->n_refs > 0);
    if (--request->n_refs > 0)
        return;
    loop_timer_stop(host->loop, &request->timer);
    request_unlink(request);
    if (request->resident)
        resident_release(request->resident);
    request->ops->done(request);
    str_done(&request->body);
    free(request);
    service_touch(host->service);
}

double model_request_seconds(const struct model_request *request)
{
    return (double)(clock_usec() - request->start_usec) / 1e6;
}

static void request_count(const struct model_request *request)
{
    struct model_host *host = request->host;
    uint64_t numbers[HISTORY_NUMBERS] = {[HISTORY_REQUESTS] = 1};

    if (!host->config->history.enabled || request->is_elsewhere)
        return;
    if (request->failed)
        numbers[request->refused ? HISTORY_REFUSED : HISTORY_ERRORS] = 1;
    else if (!request->ended)
        numbers[HISTORY_CANCELLED] = 1;
    numbers[HISTORY_DURATION_USEC] = clock_usec() - request->start_usec;
    if (request->ops->count)
        request->ops->count(request, numbers);
    history_count(&host->history, host->params.name,
                  request->resident ? request->resident->name : NULL, request->key, numbers);
}

static void request_on_done(void *user)
{
    struct model_request *request = user;
    struct model_host *host = request->host;

    access_line(request->http, (struct log_access){.id = request->id,
                                                   .note = request->failed ? "failed" : NULL,
                                                   .is_inner = true});
    metrics_observe(&host->stats.duration, model_request_seconds(request));
    if (!request->ended && !request->failed)
        host->stats.n_cancelled++;
    request_count(request);
    request->http = NULL;
    atomic_store(&request->unwanted, true);
    loop_timer_stop(host->loop, &request->timer);
    resident_forget(&request->waiter);
    request->ops->cancel(request);
    model_request_unref(request);
}

void model_request_refuse(struct model_request *request, const struct problem *problem)
{
    if (request->ended || request->failed)
        return;
    request->failed = true;
    atomic_store(&request->unwanted, true);
    request->is_elsewhere = problem->status == ELSEWHERE_STATUS;
    request->refused = problem->status == 429 || problem->status == 503;
    if (request->refused)
        request->host->stats.n_refused++;
    else
        request->host->stats.n_failed++;
    request->ops->cancel(request);
    if (!request->http)
        return;
    /* Sending the error may call request_on_done() immediately. That call must not free the request
     * while the caller uses it. */
    model_request_ref(request);
    if (request->streaming && request->ops->failing)
        request->ops->failing(request, problem);
    if (!request->http) {
        model_request_unref(request);
        return;
    }
    if (request->streaming)
        api_error_break(request->http,
                        &(struct api_error){.status = problem->status,
                                            .code = problem->code,
                                            .param = problem->param[0] ? problem->param : NULL,
                                            .message = problem->message});
    else
        problem_send(problem, request->http);
    model_request_unref(request);
}

void model_request_fail(struct model_request *request, int status, const char *code,
                        const char *format, ...)
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
    if (status == 429)
        problem.retry_sec = 1;
    model_request_refuse(request, &problem);
}

void model_request_stale(struct model_request *request)
{
    struct resident *resident = request->resident;
    struct inf_err err = {.text = "its files changed"};

    inf_model_check(resident->model, &err);
    resident_drop(resident, err.text);
    model_request_fail(
        request, 503, "model_changed",
        "The model '%s' changed while it was in use: %s. The next request loads it again; try "
        "again.",
        resident->name, err.text);
}

static void request_on_timer(struct loop_timer *timer)
{
    struct model_request *request = timer->data;
    const uint64_t now = clock_usec(), deadline = request->deadline_usec;

    if (!request->http)
        return;
    if (request->waiter.resident && now >= request->start_usec + REQUEST_LOAD_USEC) {
        model_request_fail(request, 503, "model_loading",
                           "The model is still being loaded; try again later.");
        return;
    }
    if (deadline && now >= deadline) {
        model_request_fail(request, 408, "timeout",
                           "The request took longer than this server allows.");
        return;
    }
    /* If the files changed, the engine also notices this, and ends all requests. */
    if (request->resident)
        resident_check(request->resident);
    if (request->ops->tick)
        request->ops->tick(request);
    loop_timer_set(request->host->loop, timer,
                   deadline ? MIN(deadline - now, REQUEST_TICK_USEC) : REQUEST_TICK_USEC);
}

static void request_on_ready(struct resident_waiter *waiter, struct resident *resident,
                             const struct problem *problem)
{
    struct model_request *request = CONTAINER_OF(waiter, struct model_request, waiter);

    if (!resident) {
        model_request_refuse(request, problem);
        return;
    }
    request->resident = resident;
    request->ops->ready(request);
}

/* --- work on preparer threads --- */

static struct model_request *request_of(struct job *job)
{
    return CONTAINER_OF(job, struct model_request, job);
}

static void request_job_run(struct job *job)
{
    struct model_request *request = request_of(job);

    if (!atomic_load(&request->unwanted))
        request->work(request);
}

static void request_job_done(struct job *job)
{
    struct model_request *request = request_of(job);

    if (model_request_is_wanted(request))
        request->then(request);
    model_request_unref(request);
}

static void request_queue(struct model_request *request, struct job_lane *lane)
{
    request->job = (struct job){.run = request_job_run, .done = request_job_done};
    model_request_ref(request);
    jobs_queue(request->host->preparers, lane, &request->job);
}

void model_request_work(struct model_request *request, enum resident_lane lane,
                        void (*work)(struct model_request *request),
                        void (*then)(struct model_request *request))
{
    request->work = work;
    request->then = then;
    request_queue(request,
                  request->resident ? &request->resident->lanes[lane] : &request->host->reading);
}

void model_request_keep(struct model_request *request, uint64_t keep_usec)
{
    const uint64_t max = request->host->config->max_keep_alive_usec;

    if (max)
        request->resident->keep_usec = MIN(keep_usec, max);
}

void model_request_aside(struct model_request *request, struct job_lane *lane,
                         void (*work)(struct model_request *request),
                         void (*then)(struct model_request *request))
{
    request->work = work;
    request->then = then;
    request_queue(request, lane);
}

static void request_read_copy(struct model_request *request)
{
    request->read(request, (struct http_text){request->body.data, request->body.len});
    str_done(&request->body);
}

void model_request_read(struct model_request *request,
                        void (*read)(struct model_request *request, struct http_text body),
                        void (*then)(struct model_request *request))
{
    const struct http_text body = http_request_body(request->http);

    request->lane = body.len > REQUEST_SMALL_BODY ? RESIDENT_LARGE : RESIDENT_SMALL;
    if (request->lane == RESIDENT_SMALL || !request->host->preparers) {
        read(request, body);
        then(request);
        return;
    }
    /* The HTTP request frees the body when the client leaves, so the job gets a copy. */
    if (str_append(&request->body, body.data, body.len) < 0) {
        model_request_fail(request, 503, "out_of_memory", "Out of memory.");
        return;
    }
    request->read = read;
    request->work = request_read_copy;
    request->then = then;
    request_queue(request, &request->host->reading);
}

struct model_request *model_request_new(struct model_host *host,
                                        const struct model_request_ops *ops,
                                        struct http_request *http)
{
    static const struct http_request_events events = {.done = request_on_done};
    struct model_request *request = calloc(1, ops->size);
    struct problem problem;

    if (!request) {
        problem_no_memory(&problem);
        problem_send(&problem, http);
        return NULL;
    }
    request->ops = ops;
    request->host = host;
    request->http = http;
    request->n_refs = 1;
    request->start_usec = http_request_start_usec(http);
    request->waiter.ready = request_on_ready;
    request->timer = (struct loop_timer){.fire = request_on_timer, .data = request};
    request_link(request);
    host->stats.n_requests++;
    request_id_take(http, "req_", request->id);
    history_take_key(http, request->key);
    http_request_set_events(http, &events, request);
    return request;
}

bool model_request_admit(struct model_request *request)
{
    const struct model_host_params *params = &request->host->params;

    if (params->max_requests && request->host->n_requests > params->max_requests) {
        model_request_fail(request, 429, "queue_full",
                           "Too many requests are waiting; try again later.");
        return false;
    }
    if (params->request_timeout_usec)
        request->deadline_usec = request->start_usec + params->request_timeout_usec;
    loop_timer_set(request->host->loop, &request->timer, REQUEST_TICK_USEC);
    return true;
}

void model_request_want(struct model_request *request, const struct models_entry *entry,
                        const void *key)
{
    residents_want(&request->host->residents, entry, key, &request->waiter);
}
