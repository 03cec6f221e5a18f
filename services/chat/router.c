/* SPDX-License-Identifier: Apache-2.0 */
/* A new endpoint is one row: an endpoint that needs a model, or a function that answers at once. */
#include <string.h>

#include "chat/chat.h"
#include "chat/generation.h"
#include "common/api-error.h"
#include "common/service.h"

static const struct {
    const char *method, *path;
    bool is_prefix;
    const struct endpoint *endpoint;
    void (*answer)(struct chat *chat, struct http_request *request);
} routes[] = {
    {"POST", "/v1/chat/completions", .endpoint = &endpoint_chat},
    {"POST", "/v1/completions", .endpoint = &endpoint_completions},
    {"POST", "/tokenize", .endpoint = &endpoint_tokenize},
    {"POST", "/detokenize", .endpoint = &endpoint_detokenize},
    {"POST", "/apply-template", .endpoint = &endpoint_apply_template},
    {"GET", "/v1/models", .answer = chat_list_models},
    {"GET", "/v1/models/", .is_prefix = true, .answer = chat_show_model},
    {"GET", "/health", .answer = chat_health},
    {"GET", "/metrics", .answer = chat_metrics},
};

static bool path_matches(struct http_text path, size_t i)
{
    const size_t len = strlen(routes[i].path);

    return routes[i].is_prefix ? path.len > len && memcmp(path.data, routes[i].path, len) == 0
                               : http_text_is(path, routes[i].path);
}

static bool method_matches(struct http_text method, size_t i)
{
    return http_text_is(method, routes[i].method) ||
           (http_text_is(method, "HEAD") && strcmp(routes[i].method, "GET") == 0);
}

void chat_handle(void *data, struct http_request *request)
{
    struct chat *chat = data;
    const struct http_text path = http_request_path(request);
    const struct http_text method = http_request_method(request);
    size_t i = 0;

    while (i < ARRAY_SIZE(routes) && !path_matches(path, i))
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
        routes[i].answer(chat, request);
    } else if (chat->expired) {
        api_error_send(request, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
    } else {
        service_touch(chat->service);
        generation_new(chat, routes[i].endpoint, request);
    }
}
