/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes /health, /metrics and the status line for systemd.
 *
 * Metrics whose names begin with `vllm:` have the names of vLLM's metrics, so that dashboards for
 * vLLM can show them.
 */
#include <stdio.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/http/http.h"
#include "common/wire/cache-client.h"
#include "common/wire/keep-client.h"

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
        t.sum.kv_used_bytes += s.kv_used_bytes;
        t.sum.kv_idle_bytes += s.kv_idle_bytes;
        t.sum.decode_tok_s += s.decode_tok_s;
        t.sum.prefill_tok_s += s.prefill_tok_s;
        t.sum.n_steps += s.n_steps;
        t.sum.n_drafts += s.n_drafts;
        t.sum.n_drafted += s.n_drafted;
        t.sum.n_draft_accepted += s.n_draft_accepted;
        t.sum.step_seqs.count += s.step_seqs.count;
        t.sum.step_seqs.sum += s.step_seqs.sum;
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
    {"sconce_chat_device_losses_total", "counter", "Times that the device was lost.",
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
     "Times that blocks were not read from the cache service because computing seemed faster.",
     STAT(engine.n_tier_refused)},
    {"sconce_chat_drafted_tokens_total", "counter", "Drafted tokens that steps verified.",
     STAT(engine.n_drafted)},
    {"sconce_chat_accepted_tokens_total", "counter", "Drafted tokens that became text.",
     STAT(engine.n_draft_accepted)},
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
    metrics_head(out, "vllm:request_success_total", "counter",
                 "Choices, by the reason for which they ended.");
    metrics_sample(out, "vllm:request_success_total", "finished_reason=\"stop\"",
                   (double)s->n_finished_stop);
    metrics_sample(out, "vllm:request_success_total", "finished_reason=\"length\"",
                   (double)s->n_finished_length);
    metrics_write_histogram(out, "vllm:time_to_first_token_seconds",
                            "Time from a request's arrival to its first token.", NULL,
                            &s->first_token);
    metrics_write_histogram(out, "vllm:e2e_request_latency_seconds",
                            "Time from a request's arrival to the end of its answer.", NULL,
                            &chat->host.stats.duration);
}

#define HISTOGRAM(field) offsetof(struct inf_engine_stats, field)
static const struct {
    const char *name, *help;
    size_t offset;
    enum inf_histogram_unit unit;
} histograms[] = {
    {"sconce_chat_queue_seconds", "Time from the submission of a sequence until it first runs.",
     HISTOGRAM(queue_seconds), INF_HISTOGRAM_SECONDS},
    {"vllm:request_queue_time_seconds",
     "Time from the submission of a sequence until it first runs.", HISTOGRAM(queue_seconds),
     INF_HISTOGRAM_SECONDS},
    {"sconce_chat_first_token_seconds",
     "Time from the submission of a sequence to its first token.", HISTOGRAM(first_token_seconds),
     INF_HISTOGRAM_SECONDS},
    {"sconce_chat_next_token_seconds", "Time from one token of a sequence to the next.",
     HISTOGRAM(next_token_seconds), INF_HISTOGRAM_SECONDS},
    {"vllm:inter_token_latency_seconds", "Time from one token of a sequence to the next.",
     HISTOGRAM(next_token_seconds), INF_HISTOGRAM_SECONDS},
    {"sconce_chat_step_tokens", "Tokens that a step computes.", HISTOGRAM(step_tokens),
     INF_HISTOGRAM_NUMBER},
    {"vllm:iteration_tokens_total", "Tokens that a step computes.", HISTOGRAM(step_tokens),
     INF_HISTOGRAM_NUMBER},
    {"sconce_chat_step_sequences", "Sequences that a step computes.", HISTOGRAM(step_seqs),
     INF_HISTOGRAM_NUMBER},
};
#undef HISTOGRAM

static void metrics_histograms(const struct model_host *host, struct str *out)
{
    char labels[MODEL_LABELS_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(histograms); i++) {
        struct resident *r = residents_ready(host->residents.first);

        metrics_head(out, histograms[i].name, "histogram", histograms[i].help);
        for (; r; r = residents_ready(r->next)) {
            struct inf_engine_stats s;
            const struct inf_histogram *h = (void *)((char *)&s + histograms[i].offset);

            inf_engine_stats(chat_resident_of(r)->engine, &s);
            model_host_put_labels(r, labels, sizeof(labels));
            metrics_put_buckets(out, histograms[i].name, labels, INF_HISTOGRAM_BUCKETS,
                                inf_histogram_bounds(histograms[i].unit), h->buckets, h->count,
                                h->sum);
        }
    }
}

/* Writes, for each position of a draft, how often it was tried and accepted. */
static void metrics_drafts(const struct model_host *host, struct str *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"sconce_chat_draft_tries_total",
         "Drafted tokens before which all others were accepted, by position.",
         offsetof(struct inf_engine_stats, draft_tried)},
        {"sconce_chat_draft_hits_total", "Drafted tokens that were accepted, by position.",
         offsetof(struct inf_engine_stats, draft_accepted)},
    };
    char labels[MODEL_LABELS_SIZE], all[MODEL_LABELS_SIZE + 32];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct resident *r = residents_ready(host->residents.first);

        metrics_head(out, rows[i].name, "counter", rows[i].help);
        for (; r; r = residents_ready(r->next)) {
            struct inf_engine_stats s;
            const uint64_t *counts = (void *)((char *)&s + rows[i].offset);

            inf_engine_stats(chat_resident_of(r)->engine, &s);
            model_host_put_labels(r, labels, sizeof(labels));
            for (unsigned k = 0; k < INF_DRAFT_MAX && s.draft_tried[k] > 0; k++) {
                snprintf(all, sizeof(all), "%s,position=\"%u\"", labels, k + 1);
                metrics_sample(out, rows[i].name, all, (double)counts[k]);
            }
        }
    }
}

/* Writes metrics under llama-server's names. */
static void metrics_llama(const struct chat *chat, const struct totals *t, struct str *out)
{
    const struct chat_stats *s = &chat->stats;
    const double n_computed = (double)(s->n_prompt_tokens - s->n_cached_tokens);
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"prompt_tokens_total", "counter", "Tokens of prompts that were computed.", n_computed},
        {"prompt_tokens_cached_total", "counter", "Tokens of prompts that were in the cache.",
         (double)s->n_cached_tokens},
        {"prompt_seconds_total", "counter", "Time in which prompts were computed.",
         s->prompt_seconds},
        {"tokens_predicted_total", "counter", "Tokens that were generated.",
         (double)s->n_generated_tokens},
        {"tokens_predicted_seconds_total", "counter", "Time in which tokens were generated.",
         s->generation_seconds},
        {"n_decode_total", "counter", "Steps that were computed.", (double)t->sum.n_steps},
        {"n_tokens_max", "counter", "Largest number of tokens in a prompt and its answer.",
         (double)s->n_most_tokens},
        {"spec_decode_num_draft_tokens_total", "counter", "Drafted tokens that steps verified.",
         (double)t->sum.n_drafted},
        {"spec_decode_num_accepted_tokens_total", "counter", "Drafted tokens that became text.",
         (double)t->sum.n_draft_accepted},
        {"spec_decode_num_drafts_total", "counter", "Drafts that steps verified.",
         (double)t->sum.n_drafts},
        {"prompt_tokens_seconds", "gauge", "Speed of computing prompts.", t->sum.prefill_tok_s},
        {"predicted_tokens_seconds", "gauge", "Speed of generating tokens.", t->sum.decode_tok_s},
        {"requests_processing", "gauge", "Sequences that are being computed.", t->sum.n_running},
        {"requests_deferred", "gauge", "Sequences that wait.", t->sum.n_waiting},
        {"n_busy_slots_per_decode", "gauge", "Mean number of sequences in a step.",
         t->sum.step_seqs.count ? t->sum.step_seqs.sum / (double)t->sum.step_seqs.count : 0},
    };
    char name[96];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(name, sizeof(name), "llamacpp:%s", rows[i].name);
        metrics_head(out, name, rows[i].type, rows[i].help);
        metrics_sample(out, name, NULL, rows[i].value);
    }
}

void chat_metrics(struct model_host *host, struct http_request *request)
{
    const struct chat *chat = CONTAINER_OF(host, struct chat, host);
    const struct totals t = report_totals(host);
    _cleanup_str_ struct str out = {};

    model_host_put_metrics(host, model_metrics, ARRAY_SIZE(model_metrics), &out);
    metrics_device(chat, &out);
    metrics_vllm(chat, &out);
    metrics_histograms(host, &out);
    metrics_drafts(host, &out);
    metrics_llama(chat, &t, &out);
    metrics_gauge(&out, "sconce_chat_sequences_running", "Sequences that are being computed.", NULL,
                  t.sum.n_running);
    metrics_gauge(&out, "sconce_chat_sequences_waiting", "Sequences that wait.", NULL,
                  t.sum.n_waiting);
    metrics_gauge(&out, "sconce_chat_kv_blocks_used", "Blocks of the KV cache in use.", NULL,
                  t.sum.n_blocks_used);
    metrics_gauge(&out, "sconce_chat_kv_blocks_idle", "Blocks that are kept for later prompts.",
                  NULL, t.sum.n_blocks_idle);
    metrics_gauge(&out, "sconce_chat_kv_used_bytes",
                  "Memory of running texts: keys, values and recurrent state.", NULL,
                  (double)t.sum.kv_used_bytes);
    metrics_gauge(&out, "sconce_chat_kv_idle_bytes",
                  "Memory of keys, values and recurrent state that are kept for later prompts.",
                  NULL, (double)t.sum.kv_idle_bytes);
    metrics_counter(&out, "sconce_chat_cached_tokens_total",
                    "Tokens of prompts that were not computed again.", NULL,
                    (double)chat->stats.n_cached_tokens);
    metrics_gauge(&out, "sconce_chat_models_loaded", "Models in memory.", NULL, t.n_residents);
    if (chat->cache_socket)
        cache_client_metrics(&out);
    if (chat->keep_socket)
        keep_client_metrics(&out);
    model_host_put_counters(host, "sconce_chat", &out);
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
