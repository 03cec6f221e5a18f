/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes /health, /metrics and the status line for systemd.
 *
 * Metrics whose names begin with vllm: have the names of vLLM's metrics, so that
 * dashboards for vLLM can show them.
 */
#include <stdio.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/http/http.h"
#include "common/wire/cache-client.h"

struct totals {
    struct inf_engine_stats sum;
    uint32_t n_residents;
    const char *name;
};

static struct totals report_totals(const struct model_host *host)
{
    struct resident *r = residents_ready(host->residents.first);
    struct totals t = {};

    for (; r; r = residents_ready(r->next)) {
        struct inf_engine_stats s;

        inf_engine_stats(chat_resident_of(r)->engine, &s);
        t.n_residents++;
        t.name = r->name;
        t.sum.n_waiting += s.n_waiting;
        t.sum.n_running += s.n_running;
        t.sum.n_blocks_used += s.n_blocks_used;
        t.sum.n_blocks_idle += s.n_blocks_idle;
        t.sum.decode_tok_s += s.decode_tok_s;
    }
    return t;
}

/* Returns ", 81.5 tokens/s", or "" if no speed is known yet. */
static const char *status_speed(double tok_s, char *text, size_t size)
{
    text[0] = 0;
    if (tok_s > 0)
        snprintf(text, size, ", %.1f tokens/s", tok_s);
    return text;
}

void chat_status(void *host, char *text, size_t size)
{
    const struct chat *chat = host;
    const struct totals t = report_totals(&chat->host);
    const char *device = chat_device_name(&chat->device);
    char models[300], speed[48];

    snprintf(models, sizeof(models), "%u models", t.n_residents);
    if (chat->host.residents.loading)
        snprintf(text, size, "Loading %s", chat->host.residents.loading->name);
    else if (!t.n_residents)
        snprintf(text, size, "Ready, on %s", chat->device.text);
    else if (chat->host.n_requests == 0)
        snprintf(text, size, "%s loaded, nothing runs, on %s", t.n_residents > 1 ? models : t.name,
                 device);
    else
        snprintf(text, size, "%s: %u running, %u waiting%s on %s",
                 t.n_residents > 1 ? models : t.name, t.sum.n_running, t.sum.n_waiting,
                 status_speed(t.sum.decode_tok_s, speed, sizeof(speed)), device);
}

void chat_health(struct model_host *host, struct http_request *request)
{
    const struct totals t = report_totals(host);
    _cleanup_str_ struct str out = {};

    model_host_put_health(host, &out);
    str_printf(&out, ",\"running\":%u,\"waiting\":%u}", t.sum.n_running, t.sum.n_waiting);
    model_host_send_health(host, request, &out);
}

#define STAT(field) MODEL_METRIC(chat_resident_stats, field)
static const struct model_metric model_metrics[] = {
    {"vllm:num_requests_running", "gauge", "Sequences that are being computed.",
     STAT(engine.n_running)},
    {"vllm:num_requests_waiting", "gauge", "Sequences that wait.", STAT(engine.n_waiting)},
    {"vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1 is all.", STAT(kv_use)},
    {"sconce_chat_prefill_tokens_per_second", "gauge",
     "Speed of computing prompts, over the last seconds of work.", STAT(engine.prefill_tok_s)},
    {"sconce_chat_decode_tokens_per_second", "gauge",
     "Speed of generating tokens, over the last seconds of work.", STAT(engine.decode_tok_s)},
    {"sconce_chat_device_losses_total", "counter", "How often the device was lost.",
     STAT(engine.n_device_losses)},
    {"sconce_chat_loaded_blocks_total", "counter",
     "Blocks of prompts that were read from the cache service.", STAT(engine.n_tier_loaded)},
    {"sconce_chat_loaded_bytes_total", "counter",
     "Bytes of blocks that were read from the cache service.", STAT(engine.tier_loaded_bytes)},
    {"sconce_chat_kept_blocks_total", "counter", "Blocks that the cache service accepted.",
     STAT(engine.n_tier_kept)},
    {"sconce_chat_kept_bytes_total", "counter", "Bytes of blocks that the cache service accepted.",
     STAT(engine.tier_kept_bytes)},
    {"sconce_chat_bad_blocks_total", "counter",
     "Blocks from the cache service that were damaged and had to be computed.",
     STAT(engine.n_tier_bad)},
    {"sconce_chat_unread_prompts_total", "counter",
     "How often blocks were not read from the cache service because computing them seemed faster.",
     STAT(engine.n_tier_refused)},
    {"sconce_chat_threads", "gauge", "Threads that compute.", STAT(n_threads)},
};
#undef STAT

static void metrics_device(const struct chat *chat, struct str *out)
{
    const struct inf_device_info *info = inf_device_info(chat->device.device);
    char labels[512];

    /* Names of devices are printable and contain neither quotes nor backslashes. */
    snprintf(labels, sizeof(labels), "device=\"%s\",description=\"%s\"", info->name,
             info->description);
    metrics_head(out, "sconce_chat_device_info", "gauge",
                 "The device that computes, named by the labels; always 1.");
    metrics_sample(out, "sconce_chat_device_info", labels, 1);
}

static void metrics_vllm(const struct chat *chat, struct str *out)
{
    const struct chat_stats *s = &chat->stats;

    metrics_counter(out, "vllm:prompt_tokens_total", "Tokens of prompts.", NULL,
                    (double)s->n_prompt_tokens);
    metrics_counter(out, "vllm:generation_tokens_total", "Tokens that were generated.", NULL,
                    (double)s->n_generated_tokens);
    metrics_head(out, "vllm:request_success_total", "counter", "Choices by how they ended.");
    metrics_sample(out, "vllm:request_success_total", "finished_reason=\"stop\"",
                   (double)s->n_finished_stop);
    metrics_sample(out, "vllm:request_success_total", "finished_reason=\"length\"",
                   (double)s->n_finished_length);
    metrics_write_histogram(out, "vllm:time_to_first_token_seconds",
                            "From a request's arrival to its first token.", NULL, &s->first_token);
    metrics_write_histogram(out, "vllm:e2e_request_latency_seconds",
                            "From a request's arrival to the end of its answer.", NULL,
                            &chat->host.stats.duration);
}

void chat_metrics(struct model_host *host, struct http_request *request)
{
    const struct chat *chat = CONTAINER_OF(host, struct chat, host);
    const struct totals t = report_totals(host);
    _cleanup_str_ struct str out = {};

    model_host_put_metrics(host, model_metrics, ARRAY_SIZE(model_metrics), &out);
    metrics_device(chat, &out);
    metrics_vllm(chat, &out);
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
                    (double)chat->stats.n_cached_tokens);
    metrics_gauge(&out, "sconce_chat_models_loaded", "Models in memory.", NULL, t.n_residents);
    if (chat->cache_socket)
        cache_client_metrics(&out);
    model_host_put_counters(host, "sconce_chat", &out);
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
