/* SPDX-License-Identifier: Apache-2.0 */
/* A new endpoint is one row: an endpoint that needs a model, or a function that answers at once. */
#include <string.h>

#include "common/api-error.h"
#include "common/confine.h"
#include "common/http.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "core/clock.h"
#include "embed/call.h"
#include "embed/embed.h"

#define LISTING_FRESH_USEC (1000 * 1000u)

static const struct {
    const char *method, *path;
    const struct endpoint *endpoint;
    void (*answer)(struct embed *embed, struct http_request *request);
} routes[] = {
    {"POST", "/v1/embeddings", .endpoint = &endpoint_embeddings},
    {"POST", "/v1/rerank", .endpoint = &endpoint_rerank},
    {"POST", "/v1/similarity", .endpoint = &endpoint_v1_similarity},
    {"POST", "/embed", .endpoint = &endpoint_embed},
    {"POST", "/embed_all", .endpoint = &endpoint_embed_all},
    {"POST", "/rerank", .endpoint = &endpoint_rerank},
    {"POST", "/similarity", .endpoint = &endpoint_similarity},
    {"GET", "/health", .answer = embed_health},
    {"GET", "/metrics", .answer = embed_metrics},
};

const struct models *embed_models(struct embed *embed)
{
    const uint64_t now = clock_usec();
    struct models *models;
    struct inf_err err = {};

    if (embed->models && now - embed->scanned_usec < LISTING_FRESH_USEC)
        return embed->models;
    if (models_scan(embed->config, &models, &err) < 0) {
        log_error("cannot list the models: %s", err.text);
        return embed->models;
    }
    models_free(embed->models);
    embed->models = models;
    embed->scanned_usec = now;
    if (confine_is_outdated())
        service_retire(embed->service, "a model directory came that was missing at the start");
    return models;
}

static bool method_matches(struct http_text method, size_t i)
{
    return http_text_is(method, routes[i].method) ||
           (http_text_is(method, "HEAD") && strcmp(routes[i].method, "GET") == 0);
}

void embed_handle(void *data, struct http_request *request)
{
    struct embed *embed = data;
    const struct http_text path = http_request_path(request);
    const struct http_text method = http_request_method(request);
    size_t i = 0;

    while (i < ARRAY_SIZE(routes) && !http_text_is(path, routes[i].path))
        i++;
    if (i == ARRAY_SIZE(routes)) {
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s %.*s.",
                       (int)MIN(method.len, 16u), method.data, (int)MIN(path.len, 200u), path.data);
    } else if (!method_matches(method, i)) {
        const char *allow = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : "POST";

        http_response_header(request, "allow", allow, strlen(allow));
        api_error_send(request, 405, "method_not_allowed", NULL, 0, "%.*s takes %s.",
                       (int)MIN(path.len, 200u), path.data, allow);
    } else if (routes[i].answer) {
        /* These do not move the idle exit: a monitor must not keep models in memory. */
        routes[i].answer(embed, request);
    } else if (embed->expired) {
        api_error_send(request, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
    } else {
        service_touch(embed->service);
        call_new(embed, routes[i].endpoint, request);
    }
}
