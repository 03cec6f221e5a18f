/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes requests to the functions of the store service, and answers /health and /metrics.
 *
 * The gateway has checked the key and its rights before it forwards a request (routes.h), and only
 * the gateway can connect.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/config.h"
#include "common/config/service-table.h"
#include "common/http/access-line.h"
#include "common/http/api-error.h"
#include "common/http/problem.h"
#include "common/service/metrics.h"
#include "common/service/service.h"
#include "common/wire/fields.h"
#include "core/str.h"
#include "store/routes.h"
#include "store/store-service.h"

static void answer_health(struct store_request *r)
{
    const struct store_service *s = r->service;
    const bool stops = service_is_draining(s->service);
    char text[160];
    const int n = snprintf(
        text, sizeof(text), "{\"status\":\"%s\",\"version\":\"%s\",\"models\":[],\"running\":%u}",
        stops ? "stopping" : "ok", SCONCE_VERSION, s->n_pulls + s->n_changes + s->n_uploads);

    http_respond(r->http, stops ? 503 : 200, "application/json", text, (size_t)n);
}

static void answer_metrics(struct store_request *r)
{
    const struct store_service *s = r->service;
    _cleanup_str_ struct str out = {0};

    metrics_counter(&out, "sconce_store_pulls_total", "Models that were pulled for clients.", NULL,
                    (double)s->stats.n_pulled);
    metrics_counter(&out, "sconce_store_failed_pulls_total", "Pulls that failed.", NULL,
                    (double)s->stats.n_failed);
    metrics_counter(&out, "sconce_store_stopped_pulls_total",
                    "Pulls that were stopped because all of their clients left.", NULL,
                    (double)s->stats.n_stopped);
    metrics_counter(&out, "sconce_store_removals_total", "Models and names that were removed.",
                    NULL, (double)s->stats.n_removed);
    metrics_counter(&out, "sconce_store_names_total", "Names that were given to models.", NULL,
                    (double)s->stats.n_named);
    metrics_counter(&out, "sconce_store_uploads_total", "Files that clients uploaded.", NULL,
                    (double)s->stats.n_uploaded);
    metrics_counter(&out, "sconce_store_created_total",
                    "Models that were made of uploaded files and of other models.", NULL,
                    (double)s->stats.n_created);
    metrics_gauge(&out, "sconce_store_pulls_active", "Pulls that wait or run.", NULL, s->n_pulls);
    metrics_process(&out, "sconce_store");
    metrics_server(&out, "sconce_store", http_server_stats(service_server(s->service)));
    http_respond(r->http, 200, METRICS_TYPE, out.data, out.len);
}

struct store_route {
    const char *method, *path;
    const struct error_shape *errors; /* NULL: OpenAI's */
    bool changes;                     /* it changes the store */
    enum {
        MATCH_EXACT,
        MATCH_PREFIX, /* a longer path is required */
        MATCH_UPLOAD, /* like MATCH_PREFIX; the body is read while it arrives */
    } match;
    void (*handle)(struct store_request *r);
};

#define ROUTE(method, path, right, match, api, handler)                                            \
    {#method, path, &errors_##api, true, MATCH_##match, handler},
static const struct store_route routes[] = {{"GET", "/health", NULL, false, 0, answer_health},
                                            {"GET", "/metrics", NULL, false, 0, answer_metrics},
                                            STORE_ROUTES(ROUTE)};

static void request_done(void *user)
{
    struct store_request *r = user;

    if (r->pull)
        pulls_leave(r);
    if (r->change)
        changes_leave(r);
    if (r->upload)
        uploads_leave(r);
    access_line(r->http, (struct log_access){.id = r->id, .is_inner = true});
    free(r);
}

static void request_body(void *user, const char *data, size_t len)
{
    uploads_take(user, data, len);
}

static const struct http_request_events request_events = {.done = request_done,
                                                          .body = request_body};

/* Refuses changes that this process cannot make. Returns whether it did. */
static bool refuse_changes(struct store_request *r)
{
    const struct store_service *s = r->service;

    if (s->config->only_model) {
        api_error_send(r->http, 501, "not_implemented", NULL, 0,
                       "This server offers only one model, so clients cannot change its models.");
        return true;
    }
    if (service_is_draining(s->service)) {
        api_error_send(r->http, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
        return true;
    }
    return false;
}

/* Returns whether @route has the path and the method. HEAD counts as GET.
 * *ret_first gets the first route of the path. */
static bool route_matches(const struct store_route *route, const struct http_request *request,
                          const struct store_route **ret_first)
{
    const struct http_text path = http_request_path(request), method = http_request_method(request);
    const size_t len = strlen(route->path);

    if (route->match == MATCH_EXACT ? !http_text_is(path, route->path)
                                    : path.len <= len || memcmp(path.data, route->path, len) != 0)
        return false;
    if (!*ret_first)
        *ret_first = route;
    return http_text_is(method, route->method) ||
           (http_text_is(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

/* Finds the route of a request; NULL: there is none, and the request was answered. */
static const struct store_route *route_find(struct http_request *request)
{
    const struct http_text path = http_request_path(request);
    const struct store_route *first = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
        if (route_matches(&routes[i], request, &first)) {
            http_request_set_errors(request, routes[i].errors);
            return &routes[i];
        }
    if (!first) {
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s.",
                       (int)MIN(path.len, 200u), path.data);
        return NULL;
    }
    http_request_set_errors(request, first->errors);
    http_response_header(request, "allow", first->method, strlen(first->method));
    api_error_send(request, 405, "method_not_allowed", NULL, 0, "%s takes %s.", first->path,
                   first->method);
    return NULL;
}

void store_admit(void *data, struct http_request *request)
{
    struct store_request *r = NEW(struct store_request, 1);

    if (!r) {
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
        return;
    }
    r->service = data;
    r->http = request;
    request_id_take(request, "req_", r->id);
    http_request_set_events(request, &request_events, r);
    if (http_request_is_refused(request))
        return;
    r->route = route_find(request);
    if (!r->route)
        return;
    if (r->route->changes)
        service_touch(r->service->service);
    if (r->route->changes && refuse_changes(r))
        return;
    if (r->route->match == MATCH_UPLOAD)
        store_upload_begin(r);
}

void store_handle(void *data, struct http_request *request)
{
    struct store_request *r = http_request_user(request);

    (void)data;
    r->route->handle(r);
}

void store_send_error(struct http_request *request, int r, const char *text)
{
    static const struct {
        int r, status;
        const char *code;
    } rows[] = {
        {-ENOENT, 404, "model_not_found"}, {-EINVAL, 400, "invalid_request"},
        {-EEXIST, 400, "name_taken"},      {-EPERM, 403, "not_in_store"},
        {-EACCES, 403, "not_in_store"},    {-EBUSY, 409, "model_busy"},
        {-ENOSPC, 507, "disk_full"},       {-ECANCELED, 503, "pull_stopped"},
        {-ENOMEM, 503, "out_of_memory"},   {-EROFS, 403, "not_in_store"},
        {-EIO, 502, "fetch_failed"},       {-EBADMSG, 502, "fetch_failed"},
        {-E2BIG, 502, "fetch_failed"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].r == r) {
            api_error_send(request, rows[i].status, rows[i].code, NULL, 0, "%s", text);
            return;
        }
    api_error_send(request, 500, "store_failed", NULL, 0, "%s", text);
}
