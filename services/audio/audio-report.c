/* SPDX-License-Identifier: Apache-2.0 */
/* /health, /metrics and the status line for systemd. */
#include <stdio.h>

#include "audio/audio.h"
#include "audio/audio-resident.h"
#include "common/http.h"
#include "common/json.h"
#include "common/service.h"

void audio_status(void *data, char *text, size_t size)
{
    struct audio *audio = data;
    struct inf_transcriber_stats sum = {0};
    const struct resident *last = NULL;
    uint32_t n = 0;

    for (struct resident *r = audio->residents; r; r = r->next) {
        struct inf_transcriber_stats s;

        if (r->state != RESIDENT_READY)
            continue;
        inf_transcriber_stats(r->transcriber, &s);
        n++;
        last = r;
        sum.n_running += s.n_running;
        sum.n_waiting += s.n_waiting;
        sum.audio_seconds += s.audio_seconds;
        sum.busy_seconds += s.busy_seconds;
    }
    if (audio->loading)
        snprintf(text, size, "Loading %s", audio->loading->name);
    else if (!n)
        snprintf(text, size, "Ready");
    else
        snprintf(text, size, "%s%s: %u running, %u waiting, %.1f times real time on %s", last->name,
                 n > 1 ? " and others" : "", sum.n_running, sum.n_waiting,
                 sum.busy_seconds > 0 ? sum.audio_seconds / sum.busy_seconds : 0,
                 inf_transcriber_device(last->transcriber));
}

void audio_health(struct audio *audio, struct http_request *request)
{
    const bool stopping = service_is_draining(audio->service);
    _cleanup_str_ struct str out = {};

    str_printf(&out, "{\"status\":\"%s\",\"version\":\"%s\",\"models\":[",
               stopping ? "stopping" : "ok", SCONCE_VERSION);
    for (struct resident *r = audio->residents, *first = r; r; r = r->next) {
        str_puts(&out, r == first ? "{\"id\":" : ",{\"id\":");
        json_put_text(&out, r->name);
        str_printf(&out, ",\"status\":\"%s\"}", r->state == RESIDENT_READY ? "loaded" : "loading");
    }
    str_printf(&out, "],\"running\":%u}", audio->n_transcriptions);
    http_respond(request, stopping ? 503 : 200, "application/json", out.data, out.len);
}

/* One number of each model. */
static const struct {
    const char *name, *type, *help;
    size_t offset; /* in struct inf_transcriber_stats */
    enum { U64, U32, DOUBLE } kind;
} model_metrics[] = {
    {"sconce_audio_model_requests_running", "gauge", "Requests that are being computed.",
     offsetof(struct inf_transcriber_stats, n_running), U32},
    {"sconce_audio_model_requests_waiting", "gauge", "Requests that wait.",
     offsetof(struct inf_transcriber_stats, n_waiting), U32},
    {"sconce_audio_windows_total", "counter", "Windows of sound that were computed.",
     offsetof(struct inf_transcriber_stats, n_windows), U64},
    {"sconce_audio_tokens_total", "counter", "Tokens that were generated.",
     offsetof(struct inf_transcriber_stats, n_tokens), U64},
    {"sconce_audio_fallbacks_total", "counter", "Windows that were tried at another temperature.",
     offsetof(struct inf_transcriber_stats, n_fallbacks), U64},
    {"sconce_audio_computed_seconds_total", "counter", "Seconds of sound that were computed.",
     offsetof(struct inf_transcriber_stats, audio_seconds), DOUBLE},
    {"sconce_audio_busy_seconds_total", "counter", "Time spent computing.",
     offsetof(struct inf_transcriber_stats, busy_seconds), DOUBLE},
};

static double metric_of(size_t i, const struct inf_transcriber_stats *s)
{
    const void *at = (const char *)s + model_metrics[i].offset;

    return model_metrics[i].kind == U64   ? (double)*(const uint64_t *)at
           : model_metrics[i].kind == U32 ? *(const uint32_t *)at
                                          : *(const double *)at;
}

static void metrics_models(struct audio *audio, struct str *out)
{
    char labels[512];

    for (size_t i = 0; i < ARRAY_SIZE(model_metrics); i++) {
        metrics_head(out, model_metrics[i].name, model_metrics[i].type, model_metrics[i].help);
        for (struct resident *r = audio->residents; r; r = r->next) {
            struct inf_transcriber_stats s;

            if (r->state != RESIDENT_READY)
                continue;
            inf_transcriber_stats(r->transcriber, &s);
            snprintf(labels, sizeof(labels), "model_name=\"%.400s\"", r->name);
            metrics_sample(out, model_metrics[i].name, labels, metric_of(i, &s));
        }
    }
}

void audio_metrics(struct audio *audio, struct http_request *request)
{
    const struct audio_stats *s = &audio->stats;
    const struct {
        const char *name, *help;
        double value;
    } counters[] = {
        {"sconce_audio_requests_total", "API requests.", (double)s->n_requests},
        {"sconce_audio_answered_total", "Requests that were answered.", (double)s->n_answered},
        {"sconce_audio_seconds_total", "Seconds of sound that were answered.", s->seconds},
        {"sconce_audio_cancelled_total", "Requests whose clients left before the end.",
         (double)s->n_cancelled},
        {"sconce_audio_refused_total", "Requests answered by 429 or 503.", (double)s->n_refused},
        {"sconce_audio_failed_total", "Requests answered by other errors.", (double)s->n_failed},
        {"sconce_audio_undecodable_total", "Files that the decoder refused.",
         (double)s->n_undecodable},
        {"sconce_audio_decoder_crashes_total", "Decoders that crashed or took too long.",
         (double)s->n_crashes},
        {"sconce_audio_model_loads_total", "Models that were loaded.", (double)s->n_loads},
    };
    _cleanup_str_ struct str out = {};

    metrics_models(audio, &out);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        metrics_counter(&out, counters[i].name, counters[i].help, NULL, counters[i].value);
    metrics_gauge(&out, "sconce_audio_requests_active", "API requests that are not over.", NULL,
                  audio->n_transcriptions);
    metrics_write_histogram(&out, "sconce_audio_time_to_first_text_seconds",
                            "From a request's arrival to its first segment.", NULL, &s->first_text);
    metrics_write_histogram(&out, "sconce_audio_request_duration_seconds",
                            "From a request's arrival to the end of its answer.", NULL,
                            &s->duration);
    metrics_process(&out, "sconce_audio");
    metrics_server(&out, "sconce_audio", http_server_stats(service_server(audio->service)));
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
