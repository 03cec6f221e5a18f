/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /health, /metrics and the status line for systemd
 *
 * Names that begin with vllm: are those of vLLM, so that its dashboards work here.
 */
#include <stdio.h>

#include "chat/chat.h"
#include "chat/resident.h"
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
        snprintf(text, size, "Ready");
    else if (t.n_residents > 1)
        snprintf(text, size, "%u models, %u running, %u waiting, %.1f tokens/s", t.n_residents,
                 t.sum.n_running, t.sum.n_waiting, t.sum.decode_tok_s);
    else
        snprintf(text, size, "%s: %u running, %u waiting, %.1f tokens/s", t.name, t.sum.n_running,
                 t.sum.n_waiting, t.sum.decode_tok_s);
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
        str_printf(&out, ",\"status\":\"%s\"}", r->state == RESIDENT_READY ? "loaded" : "loading");
    }
    str_printf(&out, "],\"running\":%u,\"waiting\":%u}", t.sum.n_running, t.sum.n_waiting);
    http_respond(request, stopping ? 503 : 200, "application/json", out.data, out.len);
}

static void metrics_models(struct chat *chat, struct str *out)
{
    const struct {
        const char *name, *help;
    } rows[] = {
        {"vllm:num_requests_running", "Sequences that are being computed."},
        {"vllm:num_requests_waiting", "Sequences that wait."},
        {"vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all."},
        {"sconce_chat_prefill_tokens_per_second", "Speed over the last seconds of work."},
        {"sconce_chat_decode_tokens_per_second", "Speed over the last seconds of work."},
        {"sconce_chat_threads", "Threads that compute."},
    };
    char labels[512];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        metrics_head(out, rows[i].name, "gauge", rows[i].help);
        for (struct resident *r = chat->residents; r; r = r->next) {
            struct inf_engine_stats s;

            if (r->state != RESIDENT_READY)
                continue;
            inf_engine_stats(r->engine, &s);
            snprintf(labels, sizeof(labels), "model_name=\"%.400s\"", r->name);
            metrics_sample(out, rows[i].name, labels,
                           i == 0   ? s.n_running
                           : i == 1 ? s.n_waiting
                           : i == 2 ? (s.n_blocks ? (double)s.n_blocks_used / s.n_blocks : 0)
                           : i == 3 ? s.prefill_tok_s
                           : i == 4 ? s.decode_tok_s
                                    : inf_engine_n_threads(r->engine));
        }
    }
}

void chat_metrics(struct chat *chat, struct http_request *request)
{
    const struct chat_stats *s = &chat->stats;
    const struct totals t = report_totals(chat);
    _cleanup_str_ struct str out = {};

    metrics_models(chat, &out);
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
    metrics_server(&out, "sconce_chat", http_server_stats(service_server(chat->service)));
    metrics_process(&out, "sconce_chat");
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
