/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /health, /metrics and the status line for systemd
 *
 * Names that begin with te_ are those of text-embeddings-inference, so that its dashboards work
 * here.
 */
#include <stdio.h>

#include "common/http.h"
#include "common/json.h"
#include "common/service.h"
#include "embed/embed.h"
#include "embed/embed-resident.h"

void embed_status(void *data, char *text, size_t size)
{
    struct embed *embed = data;
    const struct resident *last = NULL;
    uint32_t n_residents = 0;
    double tok_s = 0;

    for (struct resident *r = embed->residents; r; r = r->next) {
        if (r->state != RESIDENT_READY)
            continue;
        n_residents++;
        last = r;
        tok_s += resident_speed(r);
    }
    if (embed->loading)
        snprintf(text, size, "Loading %s", embed->loading->name);
    else if (!last)
        snprintf(text, size, "Ready");
    else if (n_residents > 1)
        snprintf(text, size, "%u models, %u requests, %.1f tokens/s", n_residents, embed->n_calls,
                 tok_s);
    else
        snprintf(text, size, "%s: %u requests, %.1f tokens/s on %s", last->name, embed->n_calls,
                 tok_s, inf_embedder_device(last->embedder));
}

void embed_health(struct embed *embed, struct http_request *request)
{
    const bool stopping = service_is_draining(embed->service);
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"models\":[",
               stopping ? "stopping" : "ok", SCONCE_VERSION);
    for (struct resident *r = embed->residents, *first = r; r; r = r->next) {
        str_puts(&out, r == first ? "{\"id\":" : ",{\"id\":");
        json_put_text(&out, r->name);
        str_printf(&out, ",\"makes\":\"%s\",\"status\":\"%s\"}", resident_makes(r),
                   r->state == RESIDENT_READY ? "loaded" : "loading");
    }
    str_printf(&out, "],\"running\":%u}", embed->n_calls);
    http_respond(request, stopping ? 503 : 200, "application/json", out.data, out.len);
}

/* One number of each model. */
static const struct {
    const char *name, *type, *help;
    size_t offset; /* in struct inf_embedder_stats */
    bool is_double;
} model_metrics[] = {
    {"sconce_embed_waiting_tokens", "gauge", "Tokens of texts that wait.",
     offsetof(struct inf_embedder_stats, n_waiting_tokens), false},
    {"sconce_embed_model_texts_total", "counter", "Texts that were computed.",
     offsetof(struct inf_embedder_stats, n_texts), false},
    {"sconce_embed_model_tokens_total", "counter", "Tokens that were computed.",
     offsetof(struct inf_embedder_stats, n_tokens), false},
    {"sconce_embed_batches_total", "counter", "Batches that were computed.",
     offsetof(struct inf_embedder_stats, n_batches), false},
    {"sconce_embed_interruptions_total", "counter",
     "How often small requests went between the layers of a large one.",
     offsetof(struct inf_embedder_stats, n_interrupted), false},
    {"sconce_embed_busy_seconds_total", "counter", "Time spent computing.",
     offsetof(struct inf_embedder_stats, busy_seconds), true},
};

static void put_labels(const struct resident *r, char *labels, size_t size)
{
    snprintf(labels, size, "model_name=\"%.400s\",makes=\"%s\"", r->name, resident_makes(r));
}

static void metrics_models(struct embed *embed, struct str *out)
{
    char labels[512];

    for (size_t i = 0; i < ARRAY_SIZE(model_metrics); i++) {
        metrics_head(out, model_metrics[i].name, model_metrics[i].type, model_metrics[i].help);
        for (struct resident *r = embed->residents; r; r = r->next) {
            struct inf_embedder_stats s;
            const void *at = (const char *)&s + model_metrics[i].offset;

            if (r->state != RESIDENT_READY)
                continue;
            inf_embedder_stats(r->embedder, &s);
            put_labels(r, labels, sizeof(labels));
            metrics_sample(out, model_metrics[i].name, labels,
                           model_metrics[i].is_double ? *(const double *)at
                                                      : (double)*(const uint64_t *)at);
        }
    }
}

static void metrics_speed(struct embed *embed, struct str *out)
{
    char labels[512];

    metrics_head(out, "sconce_embed_tokens_per_second", "gauge",
                 "Speed over the last moments of work.");
    for (struct resident *r = embed->residents; r; r = r->next) {
        if (r->state != RESIDENT_READY)
            continue;
        put_labels(r, labels, sizeof(labels));
        metrics_sample(out, "sconce_embed_tokens_per_second", labels, resident_speed(r));
    }
    metrics_head(out, "sconce_embed_threads", "gauge", "Threads that compute.");
    for (struct resident *r = embed->residents; r; r = r->next) {
        if (r->state != RESIDENT_READY)
            continue;
        put_labels(r, labels, sizeof(labels));
        metrics_sample(out, "sconce_embed_threads", labels, inf_embedder_n_threads(r->embedder));
    }
}

/* Requests that wait or run; texts-embeddings-inference has no other word for them. */
static void metrics_tei(const struct embed *embed, struct str *out)
{
    const struct embed_stats *s = &embed->stats;

    metrics_counter(out, "te_request_count", "API requests.", NULL, (double)s->n_requests);
    metrics_counter(out, "te_request_success", "Requests that were answered.", NULL,
                    (double)s->n_answered);
    metrics_head(out, "te_request_failure", "counter", "Requests that were not.");
    metrics_sample(out, "te_request_failure", "err=\"validation\"", (double)s->n_failed);
    metrics_sample(out, "te_request_failure", "err=\"overloaded\"", (double)s->n_refused);
    metrics_gauge(out, "te_queue_size", "Requests that are not over.", NULL, embed->n_calls);
    metrics_write_histogram(out, "te_request_duration",
                            "Seconds from a request's arrival to the end of its answer.", NULL,
                            &s->duration);
}

void embed_metrics(struct embed *embed, struct http_request *request)
{
    const struct embed_stats *s = &embed->stats;
    _cleanup_str_ struct str out = {};

    metrics_models(embed, &out);
    metrics_speed(embed, &out);
    metrics_tei(embed, &out);
    metrics_counter(&out, "sconce_embed_requests_total", "API requests.", NULL,
                    (double)s->n_requests);
    metrics_gauge(&out, "sconce_embed_requests_active", "API requests that are not over.", NULL,
                  embed->n_calls);
    metrics_counter(&out, "sconce_embed_texts_total", "Texts that were computed.", NULL,
                    (double)s->n_texts);
    metrics_counter(&out, "sconce_embed_tokens_total", "Tokens that were computed.", NULL,
                    (double)s->n_tokens);
    metrics_counter(&out, "sconce_embed_cancelled_total",
                    "Requests whose clients left before the end.", NULL, (double)s->n_cancelled);
    metrics_counter(&out, "sconce_embed_refused_total", "Requests answered by 429 or 503.", NULL,
                    (double)s->n_refused);
    metrics_counter(&out, "sconce_embed_failed_total", "Requests answered by other errors.", NULL,
                    (double)s->n_failed);
    metrics_counter(&out, "sconce_embed_model_loads_total", "Models that were loaded.", NULL,
                    (double)s->n_loads);
    metrics_process(&out, "sconce_embed");
    metrics_server(&out, "sconce_embed", http_server_stats(service_server(embed->service)));
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
