/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a service with models: passes requests to routes, lists models, and starts and ends the
 * process. */
#include "host/model-host.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>

#include "common/config/config.h"
#include "common/config/options.h"
#include "common/confine/confine.h"
#include "common/http/api-error.h"
#include "common/models/models.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "core/clock.h"
#include "core/err.h"
#include "host/model-request.h"

/* The gateway keeps idle connections for a shorter time than this, so only the gateway closes
 * them. */
#define MODEL_HOST_KEEP_USEC  (120 * 1000000u)
#define MODEL_HOST_FRESH_USEC (1000 * 1000u)
/* If a name is not in the list, the list is read again. The time of all these readings together has
 * a budget of MODEL_HOST_LOOK_USEC. One MODEL_HOST_LOOK_SHARE-th of the time that passes is added
 * to what is left of the budget, up to this value again. A single reading may take longer than the
 * budget. So requests for models that do not exist cost little, and a model is found at the first
 * request after it was installed. */
#define MODEL_HOST_LOOK_USEC  (500 * 1000u)
#define MODEL_HOST_LOOK_SHARE 10u
#define MODEL_HOST_PREPARERS  16u

/* --- the list of models --- */

/* Logs each broken entry once, and again when its reason changes. */
static void log_broken(const struct models *models, const struct models *before)
{
    for (size_t i = 0; i < models_n_broken(models); i++) {
        const struct models_broken *b = models_broken_at(models, i);
        bool told = false;

        for (size_t j = 0; before && !told && j < models_n_broken(before); j++)
            told = strcmp(models_broken_at(before, j)->why, b->why) == 0;
        if (!told)
            log_warn("the model %s cannot be used: %s", b->name, b->why);
    }
}

/* Returns the list, which is read again if it is older than @fresh_usec. */
static const struct models *host_models(struct model_host *host, uint64_t fresh_usec)
{
    const uint64_t now = clock_usec();
    struct models *models;

    if (host->models && now - host->scanned_usec < fresh_usec)
        return host->models;
    if (models_scan(host->config, &models) < 0) {
        log_error("cannot list the models: out of memory");
        return host->models;
    }
    log_broken(models, host->models);
    models_free(host->models);
    host->models = models;
    host->scanned_usec = clock_usec();
    host->scan_usec = host->scanned_usec - now;
    if (confine_is_outdated())
        service_retire(host->service, "a model directory appeared that was missing at the start");
    return models;
}

const struct models *model_host_models(struct model_host *host)
{
    return host_models(host, MODEL_HOST_FRESH_USEC);
}

/* Reads the list again if the budget is not spent. */
static const struct models *host_look_again(struct model_host *host)
{
    const uint64_t now = clock_usec();
    const uint64_t earned = (now - host->looked_usec) / MODEL_HOST_LOOK_SHARE;

    host->look_spent_usec -= MIN(host->look_spent_usec, earned);
    host->looked_usec = now;
    if (host->look_spent_usec > 0 && host->look_spent_usec + host->scan_usec > MODEL_HOST_LOOK_USEC)
        return host->models;
    host_models(host, 0);
    host->look_spent_usec += host->scan_usec;
    host->looked_usec = clock_usec();
    return host->models;
}

const struct models *model_host_look(struct model_host *host, const char *name)
{
    const uint64_t before = host->scanned_usec;
    const struct models *models = model_host_models(host);

    /* A list that was read just now is not read again. */
    return models && name && host->scanned_usec == before && !models_find(models, name)
               ? host_look_again(host)
               : models;
}

const struct models *model_host_list(struct model_host *host, const char *name,
                                     struct problem *problem)
{
    const struct models *models = model_host_look(host, name);

    if (!models)
        problem_set(problem, 500, "models_unreadable", NULL,
                    "The list of installed models cannot be read; see the service's log.");
    return models;
}

bool model_host_is_broken(const struct models *models, const char *name, struct problem *problem)
{
    const struct models_broken *broken = models_find_broken(models, name);

    if (!broken)
        return false;
    problem_set(problem, 404, "model_not_found", "model", "The model '%.100s' cannot be used: %s.",
                name, broken->why);
    return true;
}

/* --- routes --- */

static bool path_matches(struct http_text path, const struct model_route *route)
{
    const size_t len = strlen(route->path);

    return route->is_prefix ? path.len > len && memcmp(path.data, route->path, len) == 0
                            : http_text_is(path, route->path);
}

static bool method_matches(struct http_text method, const struct model_route *route)
{
    return http_text_is(method, route->method) ||
           (http_text_is(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

static void refuse_method(struct http_request *request, const struct model_route *route)
{
    const struct http_text path = http_request_path(request);
    const char *allow = strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method;

    http_response_header(request, "allow", allow, strlen(allow));
    api_error_send(request, 405, "method_not_allowed", NULL, 0, "%.*s takes %s.",
                   (int)MIN(path.len, 200u), path.data, allow);
}

static void host_handle(void *data, struct http_request *request)
{
    struct model_host *host = data;
    const struct http_text path = http_request_path(request);
    const struct http_text method = http_request_method(request);
    const struct model_route *route = host->params.routes;
    const struct model_route *end = route + host->params.n_routes;

    if (http_text_is(path, HISTORY_PATH) && http_text_is(method, "GET")) {
        history_counts_send(&host->history, request);
        return;
    }
    /* A path may have several routes, one for each method. */
    while (route < end && !(path_matches(path, route) && method_matches(method, route)))
        route++;
    if (route == end)
        for (route = host->params.routes; route < end && !path_matches(path, route);)
            route++;
    if (route < end)
        http_request_set_errors(request, route->errors);
    if (route == end) {
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s %.*s.",
                       (int)MIN(method.len, 16u), method.data, (int)MIN(path.len, 200u), path.data);
    } else if (!method_matches(method, route)) {
        refuse_method(request, route);
    } else if (!route->endpoint) {
        route->answer(host, request);
    } else if (host->expired) {
        api_error_send(request, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
    } else {
        service_touch(host->service);
        host->params.begin(host, route->endpoint, request);
    }
}

/* --- the process --- */

/* Returns a seed for jansson's hash tables. Without a seed, jansson would open /dev/urandom. */
static size_t random_seed(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), 0) < 0)
        log_warn("getrandom: %s", strerror(errno));
    return seed ? seed : 1;
}

static bool host_busy(void *data)
{
    const struct model_host *host = data;

    return host->n_requests > 0 || host->residents.loading;
}

static uint64_t host_stays(void *data)
{
    const struct model_host *host = data;

    return residents_kept_usec(&host->residents);
}

static void host_expired(void *data)
{
    struct model_host *host = data;
    struct model_request *next;

    host->expired = true;
    for (struct model_request *r = host->requests; r; r = next) {
        next = r->next;
        model_request_fail(r, 503, "shutting_down", "The service is ending; try again.");
    }
}

static int host_open(struct model_host *host, const struct options *options, struct inf_err *reterr)
{
    const struct model_host_params *params = &host->params;

    return service_new(
        &(struct service_params){
            .name = params->name,
            .http =
                {
                    .max_header = host->config->gateway.max_header,
                    .max_body = params->max_body,
                    .max_connections = params->max_connections,
                    .max_bodies = host->config->gateway.max_bodies,
                    .head_timeout_usec = host->config->gateway.header_timeout_usec,
                    .body_timeout_usec = host->config->gateway.body_timeout_usec,
                    .keep_timeout_usec = MODEL_HOST_KEEP_USEC,
                    .stall_timeout_usec = host->config->gateway.stall_timeout_usec,
                    .handle = host_handle,
                    .data = host,
                },
            .idle_timeout_usec = params->idle_timeout_usec,
            .closes_idle_connections = true,
            .drain_timeout_usec = options->drain_timeout_usec,
            .ready_status = params->ready_status,
            .busy = host_busy,
            .stays = host_stays,
            .expired = host_expired,
            .status = params->status,
            .data = host,
        },
        &host->service, reterr);
}

/* Returns the number of preparers (model-host.h). Each lane of a model (a queue of its jobs) counts
 * as one, and all jobs that belong to no model count as one more. The number is limited. */
static unsigned host_n_preparers(const struct model_host *host)
{
    return MIN(MAX(host->params.max_models, 1u) * RESIDENT_N_LANES + 1, MODEL_HOST_PREPARERS);
}

static int host_start(struct model_host *host)
{
    int r;

    host->loop = service_loop(host->service);
    host->residents.ops = host->params.residents;
    host->residents.max_models = host->params.max_models;
    host->residents.data = host;
    host->residents.service = host->service;
    host->residents.loop = host->loop;
    r = residents_init(&host->residents);
    if (r == 0 && host->params.prepares)
        r = jobs_new(host->loop, "preparer", host_n_preparers(host), &host->preparers);
    return r < 0 || !host->params.start ? r : host->params.start(host);
}

static void host_stop(struct model_host *host)
{
    residents_stop(&host->residents);
    host->preparers = jobs_free(host->preparers);
    /* Closing the connections ends their requests. After that no request refers to a model, so the
     * models can be freed. */
    if (host->service)
        http_server_close(service_server(host->service));
    if (host->params.stop)
        host->params.stop(host);
    residents_done(&host->residents);
    history_counts_done(&host->history);
    host->models = models_free(host->models);
    host->service = service_free(host->service);
}

int model_host_run(struct model_host *host, const struct model_host_params *params,
                   const struct options *options)
{
    struct inf_err err = {};
    int r;

    json_object_seed(random_seed());
    host->params = *params;
    host->config = options->config;
    /* If the file of one model is truncated, requests to other models must go on. */
    r = inf_files_guard();
    if (r < 0)
        err_set(&err, -r, "cannot handle model files that are cut short: %s", strerror(-r));
    else
        r = host_open(host, options, &err);
    if (r < 0)
        log_error("%s", err.text);
    else if ((r = host_start(host)) < 0)
        log_error("cannot start threads: %s", strerror(-r));
    else
        r = service_run(host->service);
    host_stop(host);
    return r < 0 ? 1 : 0;
}
