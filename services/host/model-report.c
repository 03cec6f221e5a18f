/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the parts of /health and /metrics that services with models share. */
#include <stdio.h>

#include "common/http/http.h"
#include "common/service/service.h"
#include "common/wire/json.h"
#include "core/hash.h"
#include "host/model-host.h"

static const char *purpose_of(const struct resident *r)
{
    const struct residents_ops *ops = r->pool->ops;

    return ops->purpose ? ops->purpose(r) : NULL;
}

void model_host_put_health(struct model_host *host, struct str *out)
{
    const struct residents *pool = &host->residents;

    str_printf(out, "{\"status\":\"%s\",\"version\":\"%s\",\"models\":[",
               service_is_draining(host->service) ? "stopping" : "ok", SCONCE_VERSION);
    for (const struct resident *r = pool->first; r; r = r->next) {
        str_puts(out, r == pool->first ? "{\"id\":" : ",{\"id\":");
        json_put_text(out, r->name);
        if (purpose_of(r))
            str_printf(out, ",\"%s\":\"%s\"", pool->ops->purpose_name, purpose_of(r));
        str_printf(out, ",\"status\":\"%s\"}", r->state == RESIDENT_READY ? "loaded" : "loading");
    }
    str_putc(out, ']');
}

void model_host_send_health(struct model_host *host, struct http_request *request,
                            const struct str *out)
{
    http_respond(request, service_is_draining(host->service) ? 503 : 200, "application/json",
                 out->data, out->len);
}

static double metric_of(const struct model_metric *metric, const void *stats)
{
    const void *at = (const char *)stats + metric->offset;

    return metric->kind == MODEL_METRIC_U64   ? (double)*(const uint64_t *)at
           : metric->kind == MODEL_METRIC_U32 ? *(const uint32_t *)at
                                              : *(const double *)at;
}

void model_host_put_labels(const struct resident *r, char *labels, size_t size)
{
    const int n = snprintf(labels, size, "model_name=\"%.400s\"", r->name);
    const char *purpose = purpose_of(r);
    const size_t len = purpose ? strlen(purpose) : 0;

    if (!purpose)
        return;
    /* A long text is cut, and a hash keeps it distinct. */
    if (len <= 60)
        snprintf(labels + n, size - (size_t)n, ",%s=\"%s\"", r->pool->ops->purpose_name, purpose);
    else
        snprintf(labels + n, size - (size_t)n, ",%s=\"%.40s… %08x\"", r->pool->ops->purpose_name,
                 purpose, (unsigned)hash_bytes(0, purpose, len));
}

void model_host_put_metrics(const struct model_host *host, const struct model_metric *metrics,
                            size_t n, struct str *out)
{
    const struct residents *pool = &host->residents;
    _Alignas(max_align_t) char stats[MODEL_STATS_MAX];
    char labels[MODEL_LABELS_SIZE];

    for (size_t i = 0; i < n; i++) {
        metrics_head(out, metrics[i].name, metrics[i].type, metrics[i].help);
        for (struct resident *r = residents_ready(pool->first); r; r = residents_ready(r->next)) {
            pool->ops->stats(r, stats);
            model_host_put_labels(r, labels, sizeof(labels));
            metrics_sample(out, metrics[i].name, labels, metric_of(&metrics[i], stats));
        }
    }
}

void model_host_put_counters(const struct model_host *host, const char *prefix, struct str *out)
{
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"requests_total", "API requests.", host->stats.n_requests},
        {"cancelled_total", "Requests whose clients left before the end.", host->stats.n_cancelled},
        {"refused_total", "Requests answered by 429 or 503.", host->stats.n_refused},
        {"failed_total", "Requests answered by other errors.", host->stats.n_failed},
        {"model_loads_total", "Models that were loaded.", host->residents.n_loads},
    };
    char name[128];

    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        snprintf(name, sizeof(name), "%s_%s", prefix, counters[i].name);
        metrics_counter(out, name, counters[i].help, NULL, (double)counters[i].value);
    }
    snprintf(name, sizeof(name), "%s_requests_active", prefix);
    metrics_gauge(out, name, "API requests that are not finished.", NULL, host->n_requests);
    metrics_process(out, prefix);
    metrics_server(out, prefix, http_server_stats(service_server(host->service)));
}
