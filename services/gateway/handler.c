/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to who answers it: CORS, route, method, key, in this order
 *
 * A new endpoint of a service is one row of the table.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/api-error.h"
#include "common/log.h"
#include "common/service.h"
#include "core/clock.h"
#include "gateway/gateway.h"

enum {
    METHOD_GET = 1,
    METHOD_POST = 2,
};

struct route {
    const char *path;
    unsigned methods;
    bool is_prefix; /* and something must follow */
    bool is_open;   /* no key is asked for, unless services are to be woken */
    enum gw_service service;
    void (*handle)(struct gw_request *r); /* NULL: forwarded to the service */
};

static const struct route routes[] = {
    {"/v1/chat/completions", METHOD_POST, .service = GW_CHAT},
    {"/v1/completions", METHOD_POST, .service = GW_CHAT},
    {"/v1/models", METHOD_GET, .service = GW_CHAT},
    {"/v1/models/", METHOD_GET, .is_prefix = true, .service = GW_CHAT},
    {"/tokenize", METHOD_POST, .service = GW_CHAT},
    {"/detokenize", METHOD_POST, .service = GW_CHAT},
    {"/apply-template", METHOD_POST, .service = GW_CHAT},
    {"/v1/embeddings", METHOD_POST, .service = GW_EMBED},
    {"/v1/rerank", METHOD_POST, .service = GW_EMBED},
    {"/v1/similarity", METHOD_POST, .service = GW_EMBED},
    {"/embed", METHOD_POST, .service = GW_EMBED},
    {"/embed_all", METHOD_POST, .service = GW_EMBED},
    {"/rerank", METHOD_POST, .service = GW_EMBED},
    {"/similarity", METHOD_POST, .service = GW_EMBED},
    {"/v1/audio/transcriptions", METHOD_POST, .service = GW_AUDIO},
    {"/v1/audio/translations", METHOD_POST, .service = GW_AUDIO},
    {"/health", METHOD_GET, .is_open = true, .handle = gw_health},
    {"/metrics", METHOD_GET, .handle = gw_metrics},
};

static const struct route *route_find(struct http_text path)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        const size_t len = strlen(routes[i].path);

        if (routes[i].is_prefix ? path.len > len && memcmp(path.data, routes[i].path, len) == 0
                                : http_text_is(path, routes[i].path))
            return &routes[i];
    }
    return NULL;
}

static unsigned route_method(struct http_text method)
{
    if (http_text_is(method, "POST"))
        return METHOD_POST;
    if (http_text_is(method, "GET") || http_text_is(method, "HEAD"))
        return METHOD_GET;
    return 0;
}

static void request_log(const struct gw_request *r)
{
    const struct http_text method = http_request_method(r->http);
    const struct http_text path = http_request_path(r->http);
    char method_text[16], path_text[256];

    snprintf(method_text, sizeof(method_text), "%.*s", (int)MIN(method.len, 15u), method.data);
    snprintf(path_text, sizeof(path_text), "%.*s", (int)MIN(path.len, 255u), path.data);
    log_request(&(struct log_access){
        .id = r->id,
        .method = method_text,
        .path = path_text,
        .status = http_request_status(r->http),
        .bytes = http_request_bytes(r->http),
        .duration_usec = clock_usec() - http_request_start_usec(r->http),
        .key = r->key_name,
        .note = r->note                        ? r->note
                : http_request_failed(r->http) ? "client left"
                                               : NULL,
    });
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
    request_log(r);
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

static const struct http_request_events request_events = {request_writable, request_done};

static void request_wrong_method(struct gw_request *r, unsigned methods)
{
    const char *allow = methods == METHOD_POST ? "POST" : "GET, HEAD";
    const struct http_text path = http_request_path(r->http);

    http_response_header(r->http, "allow", allow, strlen(allow));
    api_error_send(r->http, 405, "method_not_allowed", NULL, 0, "%.*s takes %s.",
                   (int)MIN(path.len, 200u), path.data, allow);
}

static void request_refuse(struct gw_request *r, enum gw_auth auth)
{
    const bool tcp = http_request_door(r->http) == HTTP_DOOR_TCP;

    r->gateway->n_unauthorized++;
    if (auth == GW_AUTH_FOREIGN) {
        api_error_send(r->http, 403, "origin_not_allowed", NULL, 0,
                       "Pages of this origin may not ask here; gateway.cors_origins names those "
                       "that may.");
        return;
    }
    http_response_header(r->http, "www-authenticate", "Bearer", 6);
    if (auth == GW_AUTH_WRONG)
        api_error_send(r->http, 401, "invalid_api_key", NULL, 0,
                       "The API key is missing or wrong: send one as `Authorization: Bearer KEY` "
                       "or `x-api-key: KEY`.");
    else
        api_error_send(r->http, 401, "no_api_key_configured", NULL, 0,
                       "Requests over %s must show an API key, and none is configured: `sconce "
                       "setup %s` makes one.",
                       tcp ? "TCP" : "the unix socket", tcp ? "tcp" : "key");
}

void gw_handle(void *data, struct http_request *request)
{
    struct gateway *gateway = data;
    const struct http_text method = http_request_method(request);
    const struct http_text path = http_request_path(request);
    const struct route *route;
    struct gw_request *r = NEW(struct gw_request, 1);
    enum gw_auth auth = GW_AUTH_PASSES;

    service_touch(gateway->service);
    if (!r) {
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
        return;
    }
    r->gateway = gateway;
    r->http = request;
    http_request_set_events(request, &request_events, r);
    request_id_take(request, "req_", r->id);
    if (gw_cors_handle(gateway->config, request))
        return;
    route = route_find(path);
    if (!route || !route->is_open || gw_health_is_deep(r))
        auth = gw_auth_check(gateway, request, &r->key_name);
    if (auth != GW_AUTH_PASSES) {
        request_refuse(r, auth);
    } else if (!route) {
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s %.*s.",
                       (int)MIN(method.len, 16u), method.data, (int)MIN(path.len, 200u), path.data);
    } else if (!(route->methods & route_method(method))) {
        request_wrong_method(r, route->methods);
    } else if (route->handle) {
        route->handle(r);
    } else {
        gw_forward(r, route->service);
    }
}
