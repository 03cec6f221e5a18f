/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests to their handlers: rows of the gateway, health and metrics. */
#include <errno.h>
#include <time.h>

#include "common/http/api-error.h"
#include "common/service/log.h"
#include "common/service/metrics.h"
#include "common/service/service.h"
#include "history/history.h"
#include "history/routes.h"

static void history_store(struct history *history, struct http_request *request)
{
    const struct http_text body = http_request_body(request);
    const size_t n = body.len / sizeof(struct history_row);
    _cleanup_free_ struct history_row *rows = n ? calloc(n, sizeof(*rows)) : NULL;
    size_t n_good = 0;
    int r = n && !rows ? -ENOMEM : 0;

    for (size_t i = 0; rows && i < n; i++)
        n_good += history_row_read(body, i, &rows[n_good]);
    if (r == 0 && history->ledger && n_good)
        r = ledger_add(history->ledger, rows, n_good, time(NULL));
    if (r < 0)
        log_warn("numbers of requests were lost: %s", strerror(-r));
    if (n_good < n && r == 0)
        log_warn("%zu of %zu rows are not valid and were left out", n - n_good, n);
    history->n_stored += history->ledger && r == 0 ? n_good : 0;
    history->n_lost += n - (r == 0 ? n_good : 0);
    service_touch(history->service);
    http_respond(request, 200, "application/json", "{}", 2);
}

static void history_health(struct history *history, struct http_request *request)
{
    const char *status = service_is_draining(history->service) ? "stopping"
                         : history->problem[0]                 ? "error"
                                                               : "ok";
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\"}", status, SCONCE_VERSION);
    http_respond(request, strcmp(status, "ok") == 0 ? 200 : 503, "application/json", out.data,
                 out.len);
}

static void history_metrics(struct history *history, struct http_request *request)
{
    _cleanup_str_ struct str out = {};
    uint64_t bytes = 0;

    if (history->ledger)
        ledger_bytes(history->ledger, &bytes);
    metrics_counter(&out, "sconce_history_rows_total", "Rows of the history that were stored.",
                    NULL, (double)history->n_stored);
    metrics_counter(&out, "sconce_history_lost_rows_total",
                    "Rows of the history that could not be stored.", NULL, (double)history->n_lost);
    metrics_gauge(&out, "sconce_history_bytes", "Size of the file of the history.", NULL,
                  (double)bytes);
    metrics_process(&out, "sconce_history");
    metrics_server(&out, "sconce_history", http_server_stats(service_server(history->service)));
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}

#define HISTORY_ROW(method, path, right, match, api, handler) {#method, path, handler},
static const struct history_route routes[] = {{"POST", HISTORY_PATH, .answer = history_store},
                                              {"GET", "/health", .answer = history_health},
                                              {"GET", "/metrics", .answer = history_metrics},
                                              HISTORY_ROUTES(HISTORY_ROW)};

void history_handle(void *data, struct http_request *request)
{
    const struct http_text path = http_request_path(request), method = http_request_method(request);
    struct history *history = data;
    bool known = false;

    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (!http_text_is(path, routes[i].path))
            continue;
        known = true;
        if (http_text_is(method, routes[i].method) ||
            (http_text_is(method, "HEAD") && strcmp(routes[i].method, "GET") == 0)) {
            routes[i].answer(history, request);
            return;
        }
    }
    if (known)
        api_error_send(request, 405, "method_not_allowed", NULL, 0, "%.*s does not take %.*s.",
                       (int)MIN(path.len, 200u), path.data, (int)MIN(method.len, 16u), method.data);
    else
        api_error_send(request, 404, "unknown_url", NULL, 0, "Unknown request URL: %.*s.",
                       (int)MIN(path.len, 200u), path.data);
}
