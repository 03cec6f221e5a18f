/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes /health, /metrics and the status line for systemd.
 *
 * Metrics whose names begin with te_ have the names of the metrics of text-embeddings-inference, so
 * that dashboards made for text-embeddings-inference can show them.
 */
#include <stdio.h>

#include "common/http/http.h"
#include "embed/embed-resident.h"
#include "embed/embed.h"

void embed_status(void *data, char *text, size_t size)
{
    const struct model_host *host = data;
    struct resident *r = residents_ready(host->residents.first), *last = NULL;
    uint32_t n_residents = 0;
    double tok_s = 0;
    char models[32];

    for (; r; r = residents_ready(r->next)) {
        n_residents++;
        last = r;
        tok_s += embed_resident_speed(embed_resident_of(r));
    }
    snprintf(models, sizeof(models), "%u models", n_residents);
    if (host->residents.loading)
        snprintf(text, size, "Loading %s", host->residents.loading->name);
    else if (!last)
        snprintf(text, size, "Ready");
    else if (host->n_requests == 0)
        snprintf(text, size, "%s loaded, nothing runs, on %s",
                 n_residents > 1 ? models : last->name,
                 inf_embedder_device(embed_resident_of(last)->embedder));
    else
        snprintf(text, size, "%s: %u running, %.1f tokens/s on %s",
                 n_residents > 1 ? models : last->name, host->n_requests, tok_s,
                 inf_embedder_device(embed_resident_of(last)->embedder));
}

void embed_health(struct model_host *host, struct http_request *request)
{
    _cleanup_str_ struct str out = {};

    model_host_put_health(host, &out);
    str_printf(&out, ",\"running\":%u}", host->n_requests);
    model_host_send_health(host, request, &out);
}

#define STAT(field) MODEL_METRIC(embed_resident_stats, field)
static const struct model_metric model_metrics[] = {
    {"sconce_embed_waiting_tokens", "gauge", "Tokens of waiting texts.",
     STAT(embedder.n_waiting_tokens)},
    {"sconce_embed_model_texts_total", "counter", "Texts that were computed.",
     STAT(embedder.n_texts)},
    {"sconce_embed_model_tokens_total", "counter", "Tokens that were computed.",
     STAT(embedder.n_tokens)},
    {"sconce_embed_batches_total", "counter", "Batches that were computed.",
     STAT(embedder.n_batches)},
    {"sconce_embed_interruptions_total", "counter",
     "Times that small requests ran between the layers of a large one.",
     STAT(embedder.n_interrupted)},
    {"sconce_embed_busy_seconds_total", "counter", "Time spent computing.",
     STAT(embedder.busy_seconds)},
    {"sconce_embed_tokens_per_second", "gauge",
     "Speed of computing tokens, over the last moments of work.", STAT(tok_s)},
    {"sconce_embed_threads", "gauge", "Threads that compute.", STAT(n_threads)},
};
#undef STAT

/* Writes the metrics of text-embeddings-inference. te_queue_size counts requests that wait and
 * requests that run, because text-embeddings-inference has only one metric for both. */
static void metrics_tei(const struct model_host *host, uint64_t n_answered, struct str *out)
{
    metrics_counter(out, "te_request_count", "API requests.", NULL, (double)host->stats.n_requests);
    metrics_counter(out, "te_request_success", "Requests that were answered.", NULL,
                    (double)n_answered);
    metrics_head(out, "te_request_failure", "counter", "Requests that were not answered.");
    metrics_sample(out, "te_request_failure", "err=\"validation\"", (double)host->stats.n_failed);
    metrics_sample(out, "te_request_failure", "err=\"overloaded\"", (double)host->stats.n_refused);
    metrics_gauge(out, "te_queue_size", "Requests that are not finished.", NULL, host->n_requests);
    metrics_write_histogram(out, "te_request_duration",
                            "Seconds from a request's arrival to the end of its answer.", NULL,
                            &host->stats.duration);
}

void embed_metrics(struct model_host *host, struct http_request *request)
{
    const struct embed_stats *s = &CONTAINER_OF(host, struct embed, host)->stats;
    _cleanup_str_ struct str out = {};

    model_host_put_metrics(host, model_metrics, ARRAY_SIZE(model_metrics), &out);
    metrics_tei(host, s->n_answered, &out);
    metrics_counter(&out, "sconce_embed_texts_total", "Texts that were computed.", NULL,
                    (double)s->n_texts);
    metrics_counter(&out, "sconce_embed_tokens_total", "Tokens that were computed.", NULL,
                    (double)s->n_tokens);
    model_host_put_counters(host, "sconce_embed", &out);
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
