/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles requests: checks CORS, key, route, method and right, in this order.
 *
 * All checks run when the head is complete, so the body of a refused request is not read.
 * The routes of each service are in its routes.h, from which the service also makes its table.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/config.h"
#include "common/http/access-line.h"
#include "common/http/api-error.h"
#include "common/service/service.h"
#include "core/clock.h"
#include "gateway/gateway.h"
#include "service-routes.h"

enum {
    METHOD_GET = 1,
    METHOD_POST = 2,
    METHOD_DELETE = 4,
    METHOD_OTHER = 8,
    METHOD_ANY = METHOD_GET | METHOD_POST | METHOD_DELETE | METHOD_OTHER,
};

struct gw_route {
    const char *path;
    unsigned methods;                     /* one or several of METHOD_… */
    unsigned right;                       /* enum right; 0: none, so no key is needed */
    bool is_prefix;                       /* a longer path is required */
    bool streams;                         /* the body is forwarded while it arrives */
    bool only_ollama;                     /* the path exists only at Ollama's port */
    const struct error_shape *errors;     /* NULL: OpenAI's */
    void (*handle)(struct gw_request *r); /* NULL: forwarded to the service */
};

static const struct gw_route own_routes[] = {
    {"/", METHOD_GET, 0, .only_ollama = true, .errors = &errors_ollama, .handle = gw_ollama_greet},
    {"/", METHOD_GET, 0, .handle = gw_page},
    {"/page/", METHOD_GET, 0, .is_prefix = true, .handle = gw_page_file},
    {"/health", METHOD_GET, 0, .handle = gw_health},
    {"/metrics", METHOD_GET, RIGHT_OBSERVE, .handle = gw_metrics},
    {"/openapi.json", METHOD_GET, 0, .handle = gw_openapi},
    {"/api/version", METHOD_GET, RIGHT_INFER, .errors = &errors_ollama,
     .handle = gw_ollama_version},
    {"/api/ps", METHOD_GET, RIGHT_INFER, .errors = &errors_ollama, .handle = gw_ollama_loaded},
    {"/api/push", METHOD_ANY, RIGHT_INFER, .errors = &errors_ollama, .handle = gw_ollama_refuse},
};

#define ROUTE_ROW(method, path, right, match, api, handler)                                        \
    {path,                                                                                         \
     METHOD_##method,                                                                              \
     RIGHT_##right,                                                                                \
     .is_prefix = ROUTE_##match != ROUTE_EXACT,                                                    \
     .streams = ROUTE_##match == ROUTE_UPLOAD,                                                     \
     .errors = &errors_##api},
#define ROUTE_ROWS(name, NAME, ROUTES)                                                             \
    static const struct gw_route name##_routes[] = {ROUTES(ROUTE_ROW)};
SERVICE_ROUTES(ROUTE_ROWS)

#define ROUTE_LIST(name, NAME, ROUTES)                                                             \
    [BACKEND_##NAME] = {name##_routes, ARRAY_SIZE(name##_routes)},
static const struct {
    const struct gw_route *rows;
    size_t n;
} service_routes[N_BACKENDS] = {SERVICE_ROUTES(ROUTE_LIST)};

/* Struct route_search is the state of the search for the route of a request. A path may have
 * several routes, one for each method. */
struct route_search {
    struct http_text path;
    unsigned method;              /* the method of the request */
    bool at_ollama;               /* the request came through Ollama's port */
    const struct gw_route *route; /* the route for path and method, or else the first route for the
                                     path */
    unsigned methods;             /* the methods of all routes for the path */
};

/* Returns whether the route of the request is among @rows. */
static bool route_find_in(const struct gw_route *rows, size_t n, struct route_search *search)
{
    const struct http_text path = search->path;

    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(rows[i].path);

        if (rows[i].is_prefix ? path.len <= len || memcmp(path.data, rows[i].path, len) != 0
                              : !http_text_is(path, rows[i].path))
            continue;
        if (rows[i].only_ollama && !search->at_ollama)
            continue;
        search->methods |= rows[i].methods;
        if (!search->route || (rows[i].methods & search->method))
            search->route = &rows[i];
        if (rows[i].methods & search->method)
            return true;
    }
    return false;
}

/* Finds the routes for the path. If a service has a route for path and method, sets *ret_target to
 * this service. */
static void route_find(struct route_search *search, enum service_backend *ret_target)
{
    for (unsigned i = 0; i < N_BACKENDS; i++)
        if (route_find_in(service_routes[i].rows, service_routes[i].n, search)) {
            *ret_target = (enum service_backend)i;
            return;
        }
    route_find_in(own_routes, ARRAY_SIZE(own_routes), search);
}

/* A deep health check starts services and shows the activity of all clients, so it needs a
 * right. */
static unsigned route_right(const struct gw_route *route, const struct gw_request *r)
{
    return route->handle == gw_health && gw_health_is_deep(r) ? RIGHT_OBSERVE : route->right;
}

static unsigned route_method(struct http_text method)
{
    if (http_text_is(method, "POST"))
        return METHOD_POST;
    if (http_text_is(method, "GET") || http_text_is(method, "HEAD"))
        return METHOD_GET;
    if (http_text_is(method, "DELETE"))
        return METHOD_DELETE;
    return METHOD_OTHER;
}

static void request_done(void *user)
{
    struct gw_request *r = user;
    struct gateway *gateway = r->gateway;
    const int status = http_request_status(r->http);

    gw_forward_cancel(r);
    gateway->n_answers[status == 499 ? 0 : MIN((unsigned)status / 100, 5u)]++;
    metrics_observe(&gateway->duration,
                    (double)(clock_usec() - http_request_start_usec(r->http)) / 1e6);
    gw_history_count(r);
    access_line(r->http,
                (struct log_access){.id = r->id, .key = r->access.key_name, .note = r->note});
    service_touch(gateway->service);
    str_done(&r->body);
    str_done(&r->text);
    free(r);
}

static void request_writable(void *user)
{
    struct gw_request *r = user;

    if (r->call)
        http_call_resume(r->call);
}

static void request_body(void *user, const char *data, size_t len)
{
    gw_forward_body(user, data, len);
}

static const struct http_request_events request_events = {request_writable, request_done,
                                                          request_body};

static void request_wrong_method(struct gw_request *r, unsigned methods)
{
    static const char *const names[] = {"GET, HEAD", "POST", "DELETE"};
    const struct http_text path = http_request_path(r->http);
    char allow[32] = "";

    for (size_t i = 0, n = 0; i < ARRAY_SIZE(names); i++)
        if (methods & 1u << i)
            n += (size_t)snprintf(allow + n, sizeof(allow) - n, "%s%s", n ? ", " : "", names[i]);
    http_response_header(r->http, "allow", allow, strlen(allow));
    api_error_send(r->http, 405, "method_not_allowed", NULL, 0, "%.*s takes %s.",
                   (int)MIN(path.len, 200u), path.data, allow);
}

static void request_refuse(struct gw_request *r, enum gw_auth auth)
{
    const bool tcp = http_request_door(r->http) != HTTP_DOOR_UNIX;

    r->gateway->n_unauthorized++;
    if (auth == GW_AUTH_FOREIGN) {
        api_error_send(r->http, 403, "origin_not_allowed", NULL, 0,
                       "Pages of this origin are not allowed; gateway.cors_origins lists the "
                       "allowed origins.");
        return;
    }
    http_response_header(r->http, "www-authenticate", "Bearer", 6);
    if (auth == GW_AUTH_WRONG)
        api_error_send(r->http, 401, "invalid_api_key", NULL, 0,
                       "The API key is missing or wrong: send one as `Authorization: Bearer KEY` "
                       "or `x-api-key: KEY`.");
    else
        api_error_send(r->http, 401, "no_api_key_configured", NULL, 0,
                       "Requests over %s need an API key, and none is configured: `sconce "
                       "setup %s` makes one.",
                       tcp ? "TCP" : "the unix socket", tcp ? "tcp" : "key");
}

static void request_lacks_right(struct gw_request *r, enum right right)
{
    const struct http_text path = http_request_path(r->http);
    char challenge[64];
    const int n = snprintf(challenge, sizeof(challenge),
                           "Bearer error=\"insufficient_scope\", scope=\"%s\"", right_name(right));

    r->gateway->n_unauthorized++;
    http_response_header(r->http, "www-authenticate", challenge, (size_t)n);
    api_error_send(r->http, 403, "insufficient_rights", NULL, 0,
                   r->access.by_key
                       ? "%.*s needs the right \"%s\", which this API key does not have."
                       : "%.*s needs the right \"%s\": send an API key that has it, or use the "
                         "unix socket as root, or as the user whose services these are.",
                   (int)MIN(path.len, 200u), path.data, right_name(right));
}

bool gw_takes_body(const struct gw_request *r)
{
    return r->route->methods & METHOD_POST ||
           (r->route->methods & METHOD_DELETE && !r->route->is_prefix);
}

bool gw_streams_body(const struct gw_request *r)
{
    return r->route->streams;
}

/* Sets the largest body for the route. */
static void request_limit_body(const struct gw_request *r)
{
    const uint64_t own =
        r->route->handle ? 0
                         : service_row_max_body(service_backends[r->target], r->gateway->config);

    if (r->route->streams)
        return;
    if (!gw_takes_body(r))
        http_request_limit_body(r->http, 0);
    else if (own)
        http_request_limit_body(r->http, own);
}

/* Checks the request and answers it if it is refused. */
static void request_check(struct gw_request *r)
{
    const struct http_text method = http_request_method(r->http);
    const struct http_text path = http_request_path(r->http);
    struct route_search search = {.path = path,
                                  .method = route_method(method),
                                  .at_ollama = http_request_door(r->http) == HTTP_DOOR_OLLAMA};
    const struct gw_route *route;
    unsigned right;

    route_find(&search, &r->target);
    route = search.route;
    right = route ? route_right(route, r) : 0;
    if (route)
        http_request_set_errors(r->http, route->errors);
    /* Anthropic's API has this name for the header with the id. */
    if (route && route->errors == &errors_anthropic)
        http_response_header(r->http, "request-id", r->id, strlen(r->id));
    if (!route || right) {
        const enum gw_auth auth = gw_auth_check(r->gateway, r->http, &r->access);

        if (auth != GW_AUTH_PASSES) {
            request_refuse(r, auth);
            return;
        }
        http_request_trust(r->http);
    }
    if (!route) {
        api_error_send(r->http, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s %.*s.",
                       (int)MIN(method.len, 16u), method.data, (int)MIN(path.len, 200u), path.data);
    } else if (!(route->methods & search.method)) {
        request_wrong_method(r, search.methods);
    } else if (right & ~r->access.rights) {
        request_lacks_right(r, right);
    } else {
        r->route = route;
        request_limit_body(r);
    }
}

void gw_admit(void *data, struct http_request *request)
{
    struct gateway *gateway = data;
    struct gw_request *r = NEW(struct gw_request, 1);

    service_touch(gateway->service);
    if (!r) {
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
        return;
    }
    r->gateway = gateway;
    r->http = request;
    http_request_set_events(request, &request_events, r);
    request_id_take(request, "req_", r->id);
    if (!gw_cors_handle(gateway->config, request) && !http_request_is_refused(request))
        request_check(r);
    if (r->route && r->route->streams) {
        http_request_stream_body(request);
        gw_forward(r, r->target);
    }
}

void gw_handle(void *data, struct http_request *request)
{
    struct gw_request *r = http_request_user(request);

    (void)data;
    if (r->route->handle)
        r->route->handle(r);
    else if (r->route->streams)
        gw_forward_finish(r);
    else
        gw_forward(r, r->target);
}
