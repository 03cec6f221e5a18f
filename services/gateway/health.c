/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers /health and /metrics.
 *
 * /health reports on the gateway. With deep=1 in the query, it also asks all services, and thereby
 * starts them. /metrics starts no service: it has the metrics of the gateway and of services that
 * are known to be running.
 */
#include <stdio.h>
#include <string.h>

#include "common/service/service.h"
#include "gateway/gateway.h"

static bool health_query_has(const struct gw_request *r, const char *pair)
{
    struct http_text rest = http_request_query(r->http);

    while (rest.len) {
        const char *amp = memchr(rest.data, '&', rest.len);
        const struct http_text item = {rest.data, amp ? (size_t)(amp - rest.data) : rest.len};

        if (http_text_is(item, pair))
            return true;
        rest.data += item.len + (amp != NULL);
        rest.len -= item.len + (amp != NULL);
    }
    return false;
}

static void health_end(struct gw_request *r)
{
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"services\":{%s}}",
               r->any_ill ? "error" : "ok", SCONCE_VERSION, r->text.data ? r->text.data : "");
    http_respond(r->http, r->any_ill ? 503 : 200, "application/json", out.data, out.len);
}

static void health_ask(struct gw_request *r, enum service_backend target);

/* Returns whether the service said that it is about to exit, for example because it was idle. The
 * next request starts it again, so it counts as healthy. */
static bool health_is_stopping(const struct gw_request *r)
{
    static const char start[] = "{\"status\":\"stopping\"";
    const size_t n = sizeof(start) - 1;

    return r->status == 503 && r->body.len > n && memcmp(r->body.data, start, n) == 0;
}

/* Adds the answer of one service to the report; then asks the next service. */
static void health_answer(struct gw_request *r)
{
    const struct service_row *row = service_backends[r->target];
    const bool missing = r->is_absent && row->package, closed = r->is_absent && row->is_optional;

    r->any_ill |= r->status != 200 && !missing && !closed && !health_is_stopping(r);
    str_printf(&r->text, "%s\"%s\":", r->target ? "," : "", row->name);
    if (r->status && r->body.len)
        str_append(&r->text, r->body.data, r->body.len);
    else
        str_printf(&r->text, "{\"status\":\"%s\"}",
                   missing  ? "not_installed"
                   : closed ? "closed"
                            : "unreachable");
    if (r->target + 1 < N_BACKENDS)
        health_ask(r, r->target + 1);
    else
        health_end(r);
}

static void health_ask(struct gw_request *r, enum service_backend target)
{
    str_clear(&r->body);
    r->status = 0;
    r->answered = health_answer;
    gw_ask(r, target, "/health");
}

bool gw_health_is_deep(const struct gw_request *r)
{
    return health_query_has(r, "deep=1");
}

void gw_health(struct gw_request *r)
{
    static const char ok[] = "{\"status\":\"ok\",\"version\":\"" SCONCE_VERSION "\"}";
    static const char stopping[] = "{\"status\":\"stopping\",\"version\":\"" SCONCE_VERSION "\"}";

    if (service_is_draining(r->gateway->service)) {
        http_respond(r->http, 503, "application/json", stopping, sizeof(stopping) - 1);
    } else if (gw_health_is_deep(r)) {
        health_ask(r, (enum service_backend)0);
    } else {
        http_respond(r->http, 200, "application/json", ok, sizeof(ok) - 1);
    }
}

static void metrics_services(const struct gw_request *r, struct str *out)
{
    static const char *const failures[GW_N_FAILURES] = {"connect",   "lost",      "timeout",
                                                        "truncated", "malformed", "silent"};
    const struct gateway *gateway = r->gateway;
    char labels[64];

    metrics_head(out, "sconce_gateway_service_failures_total", "counter",
                 "Failed calls to services, by kind of failure.");
    for (unsigned i = 0; i < N_BACKENDS; i++)
        for (unsigned k = 0; k < GW_N_FAILURES; k++) {
            snprintf(labels, sizeof(labels), "service=\"%s\",kind=\"%s\"",
                     service_backends[i]->name, failures[k]);
            metrics_sample(out, "sconce_gateway_service_failures_total", labels,
                           (double)gateway->n_failures[i][k]);
        }
    metrics_head(out, "sconce_gateway_service_calls_active", "gauge",
                 "Calls to services in progress.");
    for (unsigned i = 0; i < N_BACKENDS; i++) {
        snprintf(labels, sizeof(labels), "service=\"%s\"", service_backends[i]->name);
        metrics_sample(out, "sconce_gateway_service_calls_active", labels, gateway->n_forwarded[i]);
    }
    metrics_head(out, "sconce_service_up", "gauge", "Whether a service is known to run.");
    for (unsigned i = 0; i < N_BACKENDS; i++) {
        snprintf(labels, sizeof(labels), "service=\"%s\"", service_backends[i]->name);
        metrics_sample(out, "sconce_service_up", labels, r->is_up[i]);
    }
    metrics_counter(out, "sconce_gateway_history_lost_rows_total",
                    "Rows of the history that were dropped before they reached its service.", NULL,
                    (double)gateway->history.n_lost);
}

static void metrics_write(const struct gw_request *r, struct str *out)
{
    const struct gateway *gateway = r->gateway;
    char labels[64];

    metrics_server(out, "sconce_gateway", http_server_stats(service_server(gateway->service)));
    metrics_head(out, "sconce_gateway_requests_total", "counter", "Requests by status class.");
    for (unsigned i = 0; i < ARRAY_SIZE(gateway->n_answers); i++) {
        if (i == 1)
            continue;
        if (i == 0)
            snprintf(labels, sizeof(labels), "status=\"none\"");
        else
            snprintf(labels, sizeof(labels), "status=\"%uxx\"", i);
        metrics_sample(out, "sconce_gateway_requests_total", labels, (double)gateway->n_answers[i]);
    }
    metrics_counter(out, "sconce_gateway_unauthorized_total",
                    "Requests that were refused because of their key, its rights, or their origin.",
                    NULL, (double)gateway->n_unauthorized);
    metrics_services(r, out);
    metrics_write_histogram(out, "sconce_gateway_request_duration_seconds",
                            "Time from the arrival of a request to the end of its answer.", NULL,
                            &gateway->duration);
    metrics_process(out, "sconce_gateway");
}

/* Requests the metrics of running services one after the other, beginning with @target. When all
 * services have answered, sends the metrics of the gateway and of the services to the client. */
static void metrics_ask(struct gw_request *r, unsigned target);

static void metrics_answer(struct gw_request *r)
{
    r->is_up[r->target] = r->status == 200;
    if (r->status == 200)
        str_append(&r->text, r->body.data, r->body.len);
    metrics_ask(r, r->target + 1);
}

static void metrics_ask(struct gw_request *r, unsigned target)
{
    _cleanup_str_ struct str out = {};
    char start[24];

    while (target < N_BACKENDS && !gw_service_is_awake(r->gateway, target))
        target++;
    if (target < N_BACKENDS) {
        str_clear(&r->body);
        r->status = 0;
        r->answered = metrics_answer;
        gw_ask(r, target, "/metrics");
        return;
    }
    http_response_header(
        r->http, "process-start-time-unix", start,
        (size_t)snprintf(start, sizeof(start), "%lld", (long long)r->gateway->start_sec));
    metrics_write(r, &out);
    str_append(&out, r->text.data, r->text.len);
    http_respond(r->http, 200, METRICS_TYPE, out.data, out.len);
}

void gw_metrics(struct gw_request *r)
{
    metrics_ask(r, 0);
}
