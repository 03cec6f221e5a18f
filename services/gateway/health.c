/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /health and /metrics
 *
 * Neither wakes a service: health answers for the gateway alone unless asked with ?deep=1, and
 * metrics of a service are added only while it is known to run.
 */
#include <stdio.h>
#include <string.h>

#include "common/service.h"
#include "core/clock.h"
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

static void health_answer(struct gw_request *r)
{
    const bool well = r->status == 200;
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"services\":{\"chat\":",
               well ? "ok" : "error", SCONCE_VERSION);
    if (r->status && r->body.len)
        str_append(&out, r->body.data, r->body.len);
    else
        str_puts(&out, "{\"status\":\"unreachable\"}");
    str_puts(&out, "}}");
    http_respond(r->http, well ? 200 : 503, "application/json", out.data, out.len);
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
        r->answered = health_answer;
        gw_ask(r, GW_CHAT, "/health");
    } else {
        http_respond(r->http, 200, "application/json", ok, sizeof(ok) - 1);
    }
}

static void metrics_write(const struct gateway *gateway, bool chat_is_up, struct str *out)
{
    static const char *const failures[GW_N_FAILURES] = {"connect", "lost", "timeout", "truncated",
                                                        "silent"};
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
    metrics_counter(out, "sconce_gateway_unauthorized_total", "Requests without a valid key.", NULL,
                    (double)gateway->n_unauthorized);
    metrics_head(out, "sconce_gateway_service_failures_total", "counter",
                 "Calls of services that failed, by how.");
    for (unsigned i = 0; i < GW_N_FAILURES; i++) {
        snprintf(labels, sizeof(labels), "service=\"chat\",kind=\"%s\"", failures[i]);
        metrics_sample(out, "sconce_gateway_service_failures_total", labels,
                       (double)gateway->n_failures[i]);
    }
    metrics_gauge(out, "sconce_gateway_service_calls_active", "Calls of services that run.",
                  "service=\"chat\"", gateway->n_forwarded[GW_CHAT]);
    metrics_gauge(out, "sconce_service_up", "Whether a service is known to run.",
                  "service=\"chat\"", chat_is_up);
    metrics_write_histogram(out, "sconce_gateway_request_duration_seconds",
                            "From the arrival of a request to the end of its answer.", NULL,
                            &gateway->duration);
    metrics_process(out, "sconce_gateway");
}

static void metrics_answer(struct gw_request *r)
{
    metrics_write(r->gateway, r->status == 200, &r->text);
    if (r->status == 200)
        str_append(&r->text, r->body.data, r->body.len);
    http_respond(r->http, 200, METRICS_TYPE, r->text.data, r->text.len);
}

void gw_metrics(struct gw_request *r)
{
    const struct gateway *gateway = r->gateway;

    r->answered = metrics_answer;
    if (gateway->n_forwarded[GW_CHAT] || clock_usec() < gateway->awake_until_usec[GW_CHAT])
        gw_ask(r, GW_CHAT, "/metrics");
    else
        metrics_answer(r);
}
