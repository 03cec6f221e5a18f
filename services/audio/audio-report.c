/* SPDX-License-Identifier: Apache-2.0 */
/* Answers /health, /metrics and /api/ps, and writes the status line for systemd. */
#include <stdio.h>

#include "audio/audio-resident.h"
#include "audio/audio.h"
#include "common/http/http.h"
#include "host/ollama-model.h"

/* Returns ", 12.5 times real time", or "" if no speed is known yet. */
static const char *status_speed(const struct inf_transcriber_stats *s, char *text, size_t size)
{
    text[0] = 0;
    if (s->busy_seconds > 0 && s->audio_seconds > 0)
        snprintf(text, size, ", %.1f times real time", s->audio_seconds / s->busy_seconds);
    return text;
}

void audio_status(void *data, char *text, size_t size)
{
    const struct model_host *host = data;
    struct resident *r = residents_ready(host->residents.first), *last = NULL;
    struct inf_transcriber_stats sum = {0};
    char models[32], speed[64];
    uint32_t n = 0;

    for (; r; r = residents_ready(r->next)) {
        struct inf_transcriber_stats s;

        inf_transcriber_stats(audio_resident_of(r)->transcriber, &s);
        n++;
        last = r;
        sum.n_running += s.n_running;
        sum.n_waiting += s.n_waiting;
        sum.audio_seconds += s.audio_seconds;
        sum.busy_seconds += s.busy_seconds;
    }
    snprintf(models, sizeof(models), "%u models", n);
    if (host->residents.loading)
        snprintf(text, size, "Loading %s", host->residents.loading->name);
    else if (!last)
        snprintf(text, size, "Ready");
    else if (host->n_requests == 0)
        snprintf(text, size, "%s loaded, nothing runs, on %s", n > 1 ? models : last->name,
                 inf_transcriber_device(audio_resident_of(last)->transcriber));
    else
        snprintf(text, size, "%s: %u running, %u waiting%s on %s", n > 1 ? models : last->name,
                 sum.n_running, sum.n_waiting, status_speed(&sum, speed, sizeof(speed)),
                 inf_transcriber_device(audio_resident_of(last)->transcriber));
}

void audio_health(struct model_host *host, struct http_request *request)
{
    _cleanup_str_ struct str out = {};

    model_host_put_health(host, &out);
    str_printf(&out, ",\"running\":%u}", host->n_requests);
    model_host_send_health(host, request, &out);
}

/* Models for speech have no context that a client chooses. */
static struct ollama_loaded describe_loaded(const struct resident *resident)
{
    (void)resident;
    return (struct ollama_loaded){.n_ctx = 0};
}

void audio_loaded(struct model_host *host, struct http_request *request)
{
    ollama_loaded_send(host, request, describe_loaded);
}

#define STAT(field) MODEL_METRIC(inf_transcriber_stats, field)
static const struct model_metric model_metrics[] = {
    {"sconce_audio_model_requests_running", "gauge", "Requests that are being computed.",
     STAT(n_running)},
    {"sconce_audio_model_requests_waiting", "gauge", "Requests that wait to be computed.",
     STAT(n_waiting)},
    {"sconce_audio_windows_total", "counter", "Windows of sound that were computed.",
     STAT(n_windows)},
    {"sconce_audio_encoder_passes_total", "counter",
     "Passes of the encoder, each over one or several windows.", STAT(n_passes)},
    {"sconce_audio_tokens_total", "counter", "Tokens that were generated.", STAT(n_tokens)},
    {"sconce_audio_fallbacks_total", "counter", "Windows that were tried at another temperature.",
     STAT(n_fallbacks)},
    {"sconce_audio_computed_seconds_total", "counter", "Seconds of sound that were computed.",
     STAT(audio_seconds)},
    {"sconce_audio_busy_seconds_total", "counter", "Time spent computing.", STAT(busy_seconds)},
};
#undef STAT

void audio_metrics(struct model_host *host, struct http_request *request)
{
    const struct audio_stats *s = &CONTAINER_OF(host, struct audio, host)->stats;
    const struct {
        const char *name, *help;
        double value;
    } counters[] = {
        {"sconce_audio_answered_total", "Requests that were answered.", (double)s->n_answered},
        {"sconce_audio_seconds_total", "Seconds of sound in answered requests.", s->seconds},
        {"sconce_audio_undecodable_total", "Files that the decoder refused.",
         (double)s->n_undecodable},
        {"sconce_audio_decoder_crashes_total", "Decoders that crashed or took too long.",
         (double)s->n_crashes},
    };
    _cleanup_str_ struct str out = {};

    model_host_put_metrics(host, model_metrics, ARRAY_SIZE(model_metrics), &out);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        metrics_counter(&out, counters[i].name, counters[i].help, NULL, counters[i].value);
    metrics_write_histogram(&out, "sconce_audio_time_to_first_text_seconds",
                            "From a request's arrival to its first segment.", NULL, &s->first_text);
    metrics_write_histogram(&out, "sconce_audio_request_duration_seconds",
                            "From a request's arrival to the end of its answer.", NULL,
                            &host->stats.duration);
    model_host_put_counters(host, "sconce_audio", &out);
    http_respond(request, 200, METRICS_TYPE, out.data, out.len);
}
