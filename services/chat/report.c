/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /health, /metrics and the status line for systemd
 *
 * Names that begin with vllm: are those of vLLM, so that its dashboards work here.
 */
#include <stdio.h>

#include "chat/chat.h"
#include "chat/resident.h"
#include "common/cache-client.h"
#include "common/config.h"
#include "common/http.h"
#include "common/json.h"
#include "common/service.h"

struct totals {
    struct inf_engine_stats sum;
    uint32_t n_residents;
    const char *name;
};

static struct totals report_totals(struct chat *chat)
{
    struct totals t = {};

    for (struct resident *r = chat->residents; r; r = r->next) {
        struct inf_engine_stats s;

        if (r->state != RESIDENT_READY)
            continue;
        inf_engine_stats(r->engine, &s);
        t.n_residents++;
        t.name = r->name;
        t.sum.n_waiting += s.n_waiting;
        t.sum.n_running += s.n_running;
        t.sum.n_blocks += s.n_blocks;
        t.sum.n_blocks_used += s.n_blocks_used;
        t.sum.n_blocks_idle += s.n_blocks_idle;
        t.sum.decode_tok_s += s.decode_tok_s;
        t.sum.prefill_tok_s += s.prefill_tok_s;
    }
    return t;
}

void chat_status(void *data, char *text, size_t size)
{
    struct chat *chat = data;
    const struct totals t = report_totals(chat);

    if (chat->loading)
        snprintf(text, size, "Loading %s", chat->loading->name);
    else if (!t.n_residents)
        snprintf(text, size, "Ready, on %s", chat->device.text);
    else if (t.n_residents > 1)
        snprintf(text, size, "%u models, %u running, %u waiting, %.1f tokens/s on %s",
                 t.n_residents, t.sum.n_running, t.sum.n_waiting, t.sum.decode_tok_s,
                 chat_device_name(&chat->device));
    else
        snprintf(text, size, "%s: %u running, %u waiting, %.1f tokens/s on %s", t.name,
                 t.sum.n_running, t.sum.n_waiting, t.sum.decode_tok_s,
                 chat_device_name(&chat->device));
}

void chat_health(struct chat *chat, struct http_request *request)
{
    const struct totals t = report_totals(chat);
    const bool stopping = service_is_draining(chat->service);
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"models\":[",
               stopping ? "stopping" : "ok", SCONCE_VERSION);
    for (struct resident *r = chat->residents, *first = r; r; r = r->next) {
        str_puts(&out, r == first ? "{\"id\":" : ",{\"id\":");
        json_put_text(&out, r->name);
        if (r->kv_type)
            str_printf(&out, ",\"kv_type\":\"%s\"", r->kv_type);
        str_printf(&out, ",\"status\":\"%s\"}", r->state == RESIDENT_READY ? "loaded" : "loading");
    }
    str_printf(&out, "],\"running\":%u,\"waiting\":%u}", t.sum.n_running, t.sum.n_waiting);
    http_respond(request, stopping ? 503 : 200, "application/json", out.data, out.len);
}

static double kv_use(const struct inf_engine_stats *s)
{
    return s->n_blocks ? (double)s->n_blocks_used / s->n_blocks : 0;
}

/* One number of each model. */
struct model_metric {
    const char *name, *type, *help;
    size_t offset; /* in struct inf_engine_stats; 0: value */
    enum { U64, U32, DOUBLE } kind;
    double (*value)(const struct inf_engine_stats *s);
};
#define STAT(field, kind) offsetof(struct inf_engine_stats, field), kind, NULL

static const struct model_metric model_metrics[] = {
    {"vllm:num_requests_running", "gauge", "Sequences that are being computed.",
     STAT(n_running, U32)},
    {"vllm:num_requests_waiting", "gauge", "Sequences that wait.", STAT(n_waiting, U32)},
    {"vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1 is all.", 0, DOUBLE,
     kv_use},
    {"sconce_chat_prefill_tokens_per_second", "gauge", "Speed over the last seconds of work.",
     STAT(prefill_tok_s, DOUBLE)},
    {"sconce_chat_decode_tokens_per_second", "gauge", "Speed over the last seconds of work.",
     STAT(decode_tok_s, DOUBLE)},
    {"sconce_chat_device_losses_total", "counter", "How often the device was lost.",
     STAT(n_device_losses, U64)},
    {"sconce_chat_loaded_blocks_total", "counter",
     "Blocks of prompts that were read from the cache service.", STAT(n_tier_loaded, U64)},
    {"sconce_chat_loaded_bytes_total", "counter", "Bytes of blocks that were read from there.",
     STAT(tier_loaded_bytes, U64)},
    {"sconce_chat_kept_blocks_total", "counter", "Blocks that the cache service took.",
     STAT(n_tier_kept, U64)},
    {"sconce_chat_kept_bytes_total", "counter", "Bytes of blocks that it took.",
     STAT(tier_kept_bytes, U64)},
    {"sconce_chat_bad_blocks_total", "counter",
     "Blocks that were read, were not what had been kept, and were computed.",
     STAT(n_tier_bad, U64)},
    {"sconce_chat_unread_prompts_total", "counter",
     "How often computing blocks seemed faster than reading them.", STAT(n_tier_refused, U64)},
};
#undef STAT

static double metric_of(const struct model_metric *m, const struct inf_engine_stats *s)
{
    const char *at = (const char *)s + m->offset;

    if (m->value)
        return m->value(s);
    return m->kind == U64   ? (double)*(const uint64_t *)(const void *)at
           : m->kind == U32 ? *(const uint32_t *)(const void *)at
                            : *(const double *)(const void *)at;
}

/* The one with the configured keys and values is known by its name alone. */
static void put_labels(const struct resident *r, char *labels, size_t size)
{
    if (r->kv_type)
        snprintf(labels, size, "model_name=\"%.400s\",kv_type=\"%s\"", r->name, r->kv_type);
    else
        snprintf(labels, size, "model_name=\"%.400s\"", r->name);
}

static void metrics_models(struct chat *chat, struct str *out)
{
    char labels[512];

    for (size_t i = 0; i < ARRAY_SIZE(model_metrics); i++) {
        const struct model_metric *m = &model_metrics[i];

        metrics_head(out, m->name, m->type, m->help);
        for (struct resident *r = chat->residents; r; r = r->next) {
            struct inf_engine_stats s;

            if (r->state != RESIDENT_READY)
                continue;
            inf_engine_stats(r->engine, &s);
            put_labels(r, labels, sizeof(labels));
            metrics_sample(out, m->name, labels, metric_of(m, &s));
        }
    }
}

static void metrics_threads(struct chat *chat, struct str *out)
{
    char labels[512];

    metrics_head(out, "sconce_chat_threads", "gauge", "Threads that compute.");
    for (struct resident *r = chat->residents; r; r = r->next) {
        if (r->state != RESIDENT_READY)
            continue;
        put_labels(r, labels, sizeof(labels));
        metrics_sample(out, "sconce_chat_threads", labels, inf_engine_n_threads(r->engine));
    }
}

static void metrics_device(const struct chat *chat, struct str *out)
{
    const struct inf_device_info *info = inf_device_info(chat->device.device);
    char labels[512];

    /* Names of devices are printable and have neither quotes nor backslashes. */
    snprintf(labels, sizeof(labels), "device=\"%s\",description=\"%s\"", info->name,
             info->description);
    metrics_head(out, "sconce_chat_device_info", "gauge", "What computes; always 1.");
    metrics_sample(out, "sconce_chat_device_info", labels, 1);
}

void chat_metrics(struct chat *chat, struct http_request *request)
{
    const struct chat_stats *s = &chat->stats;
    const struct totals t = report_totals(chat);
    _cleanup_str_ struct str out = {};

    metrics_models(chat, &out);
    metrics_threads(chat, &out);
    metrics_device(chat, &out);
    metrics_counter(&out, "vllm:prompt_tokens_total", "Tokens of prompts.", NULL,
                    (double)s->n_prompt_tokens);
    metrics_counter(&out, "vllm:generation_tokens_total", "Tokens that were generated.", NULL,
                    (double)s->n_generated_tokens);
    metrics_head(&out, "vllm:request_success_total", "counter", "Choices by how they ended.");
    metrics_sample(&out, "vllm:request_success_total", "finished_reason=\"stop\"",
                   (double)s->n_finished_stop);
    metrics_sample(&out, "vllm:request_success_total", "finished_reason=\"length\"",
                   (double)s->n_finished_length);
    metrics_write_histogram(&out, "vllm:time_to_first_token_seconds",
                            "From a request's arrival to its first token.", NULL, &s->first_token);
    metrics_write_histogram(&out, "vllm:e2e_request_latency_seconds",
                            "From a request's arrival to the end of its answer.", NULL,
                            &s->duration);
    metrics_counter(&out, "sconce_chat_requests_total", "API requests.", NULL,
                    (double)s->n_requests);
    metrics_gauge(&out, "sconce_chat_requests_active", "API requests that are not over.", NULL,
                  chat->n_generations);
    metrics_gauge(&out, "sconce_chat_sequences_running", "Sequences that are being computed.", NULL,
                  t.sum.n_running);
    metrics_gauge(&out, "sconce_chat_sequences_waiting", "Sequences that wait.", NULL,
                  t.sum.n_waiting);
    metrics_gauge(&out, "sconce_chat_kv_blocks_used", "Blocks of the KV cache in use.", NULL,
                  t.sum.n_blocks_used);
    metrics_gauge(&out, "sconce_chat_kv_blocks_idle", "Blocks that are kept for later prompts.",
                  NULL, t.sum.n_blocks_idle);
    metrics_counter(&out, "sconce_chat_cached_tokens_total",
                    "Tokens of prompts that were not computed again.", NULL,
                    (double)s->n_cached_tokens);
    metrics_counter(&out, "sconce_chat_cancelled_total",
                    "Requests whose clients left before the end.", NULL, (double)s->n_cancelled);
    metrics_counter(&out, "sconce_chat_refused_total", "Requests answered by 429 or 503.", NULL,
                    (double)s->n_refused);
    metrics_counter(&out, "sconce_chat_failed_total", "Requests answered by other errors.", NULL,
                    (double)s->n_failed);
    metrics_counter(&out, "sconce_chat_model_loads_total", "Models that were loaded.", NULL,
                    (double)s->n_loads);
    metrics_gauge(&out, "sconce_chat_models_loaded", "Models in memory.", NULL, t.n_residents);
    if (chat->cache_socket)
        cache_client_metrics(&out);
    metrics_server(&out, "sconce_chat", http_server_stats(service_server(chat->service)));
    metrics_process(&out, "sconce_chat");
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
