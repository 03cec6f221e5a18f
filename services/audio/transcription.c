/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a request are told by what it holds: a waiter, a decoding, a submitted request. */
#include "audio/transcription.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audio/audio.h"
#include "common/config.h"
#include "common/json.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "common/sse.h"
#include "core/clock.h"

/* A loading model may take so long before its requests are sent away. */
#define LOAD_USEC (120 * 1000000u)
#define TICK_USEC (5 * 1000000u)
/* Memory of a decoder beside the file. */
#define DECODER_MEMORY_BYTES (512u << 20)
/* Processor time of a decoder: some seconds, and a share of the sound's own length. */
#define DECODER_CPU_SEC   30
#define DECODER_CPU_SHARE 50

static void transcription_unref(struct transcription *t)
{
    struct audio *audio = t->audio;

    if (--t->n_refs > 0)
        return;
    loop_timer_stop(audio->loop, &t->timer);
    if (t->prev)
        t->prev->next = t->next;
    else
        audio->transcriptions = t->next;
    if (t->next)
        t->next->prev = t->prev;
    audio->n_transcriptions--;
    if (t->resident)
        resident_release(t->resident);
    transcript_done(&t->transcript);
    form_done(&t->params);
    free(t);
    service_touch(audio->service);
}

static void cancel(struct transcription *t)
{
    t->decoding = decoding_cancel(t->decoding);
    if (t->audio_id)
        inf_transcriber_cancel(t->resident->transcriber, t->audio_id);
}

static void on_http_done(void *user)
{
    struct transcription *t = user;
    const struct http_text path = http_request_path(t->http);
    const uint64_t usec = clock_usec() - t->start_usec;
    char path_text[128];

    snprintf(path_text, sizeof(path_text), "%.*s", (int)MIN(path.len, 127u), path.data);
    log_request(&(struct log_access){
        .id = t->request_id,
        .method = "POST",
        .path = path_text,
        .status = http_request_status(t->http),
        .bytes = http_request_bytes(t->http),
        .duration_usec = usec,
        .note = t->failed                      ? "failed"
                : http_request_failed(t->http) ? "client left"
                                               : NULL,
    });
    metrics_observe(&t->audio->stats.duration, (double)usec / 1e6);
    if (!t->ended && !t->failed)
        t->audio->stats.n_cancelled++;
    t->http = NULL;
    loop_timer_stop(t->audio->loop, &t->timer);
    resident_forget(&t->waiter);
    cancel(t);
    transcription_unref(t);
}

static const struct http_request_events http_events = {.done = on_http_done};

/* Ends the HTTP side; everything else is cancelled by what follows from that. */
static void refuse(struct transcription *t, const struct problem *problem)
{
    if (t->ended || t->failed)
        return;
    t->failed = true;
    if (problem->status == 429 || problem->status == 503)
        t->audio->stats.n_refused++;
    else
        t->audio->stats.n_failed++;
    cancel(t);
    if (!t->http)
        return;
    /* `done` may come at once and must not free what the caller still uses. */
    t->n_refs++;
    if (t->streaming)
        sse_fail(t->http, problem->status, problem->code, problem->message);
    else
        problem_send(problem, t->http);
    transcription_unref(t);
}

void transcription_fail(struct transcription *t, int status, const char *code, const char *format,
                        ...)
{
    struct problem problem;
    char message[sizeof(problem.message)];
    va_list ap;

    va_start(ap, format);
    vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    problem_set(&problem, status, code, NULL, "%s", message);
    if (status == 503)
        problem.retry_sec = 5;
    if (status == 429)
        problem.retry_sec = 1;
    refuse(t, &problem);
}

static void on_timer(struct loop_timer *timer)
{
    struct transcription *t = timer->data;
    const uint64_t now = clock_usec();

    if (!t->http)
        return;
    if (t->waiter.resident && now >= t->start_usec + LOAD_USEC)
        transcription_fail(t, 503, "model_loading",
                           "The model is still being loaded; try again later.");
    else if (t->deadline_usec && now >= t->deadline_usec)
        transcription_fail(t, 408, "timeout", "The request took longer than this server allows.");
    else
        loop_timer_set(t->audio->loop, timer,
                       t->deadline_usec ? MIN(t->deadline_usec - now, TICK_USEC) : TICK_USEC);
}

/* --- the answer --- */

static int stream_event(struct transcription *t, const char *type, const char *field,
                        struct http_text text, bool with_usage)
{
    _cleanup_str_ struct str event = {};
    int r = sse_open(&event);

    r = r < 0 ? r : str_printf(&event, "{\"type\":\"%s\",\"%s\":", type, field);
    r = r < 0 ? r : json_put_string(&event, text.data, text.len);
    if (r == 0 && with_usage) {
        r = str_puts(&event, ",\"usage\":");
        r = r < 0 ? r : transcript_put_usage(&t->transcript, &event);
    }
    r = r < 0 ? r : str_putc(&event, '}');
    r = r < 0 ? r : sse_close(&event);
    return r < 0 ? r : sse_send(t->http, &event);
}

static void begin_stream(struct transcription *t)
{
    if (!t->streaming)
        sse_begin(t->http);
    t->streaming = true;
}

static void out_of_memory(struct transcription *t)
{
    transcription_fail(t, 503, "out_of_memory", "Out of memory.");
}

static void on_segment(struct transcription *t, const struct inf_audio_event *event)
{
    struct http_text delta;

    if (transcript_add(&t->transcript, event, &delta) < 0) {
        out_of_memory(t);
        return;
    }
    if (!t->any_text)
        metrics_observe(&t->audio->stats.first_text, (double)(clock_usec() - t->start_usec) / 1e6);
    t->any_text = true;
    if (!t->params.stream || !delta.len)
        return;
    begin_stream(t);
    if (stream_event(t, "transcript.text.delta", "delta", delta, false) < 0)
        out_of_memory(t);
}

static void answer(struct transcription *t)
{
    const struct str *text = &t->transcript.text;
    _cleanup_str_ struct str out = {};

    if (t->params.stream) {
        begin_stream(t);
        if (stream_event(t, "transcript.text.done", "text",
                         (struct http_text){text->data ? text->data : "", text->len}, true) < 0) {
            out_of_memory(t);
            return;
        }
    } else if (transcript_write(&t->transcript, &t->params, &out) < 0) {
        out_of_memory(t);
        return;
    }
    t->ended = true;
    t->audio->stats.n_answered++;
    t->audio->stats.seconds += t->transcript.seconds;
    if (t->params.stream)
        sse_done(t->http);
    else
        http_respond(t->http, 200, transcript_type(t->params.format), out.data, out.len);
}

void transcription_on_event(struct transcription *t, const struct inf_audio_event *event)
{
    const bool last = event->kind == INF_AUDIO_DONE || event->kind == INF_AUDIO_FAILED;
    const bool wanted = t->http && !t->failed && !t->ended;

    if (last)
        t->audio_id = 0;
    if (wanted && event->kind == INF_AUDIO_LANGUAGE)
        snprintf(t->transcript.language, sizeof(t->transcript.language), "%s", event->language);
    else if (wanted && event->kind == INF_AUDIO_SEGMENT)
        on_segment(t, event);
    else if (wanted && event->kind == INF_AUDIO_ROOM && t->decoding)
        decoding_resume(t->decoding);
    else if (wanted && event->kind == INF_AUDIO_FAILED)
        transcription_fail(t, 500, "model_failed", "The model failed: %s.",
                           strerror(-event->error));
    if (wanted && event->kind == INF_AUDIO_DONE) {
        t->transcript.seconds = event->seconds;
        answer(t);
    }
    if (last)
        transcription_unref(t);
}

/* --- the file --- */

static bool skips_silence(const struct transcription *t)
{
    const enum audio_silence silence = t->params.silence;

    return silence == AUDIO_SILENCE_SKIPPED || silence == AUDIO_SILENCE_AUTO ||
           (silence == AUDIO_SILENCE_USUAL && t->audio->config->audio.vad_model);
}

static void submit(struct transcription *t)
{
    const struct audio_params *p = &t->params;
    const struct inf_audio_request request = {
        .task = p->task,
        .language = p->language,
        .prompt = p->prompt,
        .hotwords = p->hotwords,
        /* 0 asks for the ladder of temperatures, as OpenAI's does. */
        .temperatures = p->temperature > 0 ? &p->temperature : NULL,
        .n_temperatures = p->temperature > 0 ? 1 : 0,
        .beam_size = p->beam_size,
        .best_of = p->best_of,
        .words = p->words,
        .skip_silence = skips_silence(t),
        .vad = p->vad,
        .seed = p->seed < 0 ? 0 : (uint64_t)p->seed,
        .user = t,
    };
    struct inf_err err = {};
    const int r = inf_transcriber_submit(t->resident->transcriber, &request, &t->audio_id, &err);

    if (r == 0) {
        t->n_refs++;
        return;
    }
    t->audio_id = 0;
    if (r == INF_AUDIO_FULL)
        transcription_fail(t, 429, "queue_full",
                           "Too many requests are waiting for this model; try again later.");
    else if (r == -EINVAL)
        transcription_fail(t, 400, "invalid_value", "The request cannot be run: %s.", err.text);
    else
        transcription_fail(t, 503, "model_failed", "The request cannot be run: %s.",
                           err.text[0] ? err.text : strerror(-r));
}

static bool on_samples(void *user, const float *samples, size_t n)
{
    struct transcription *t = user;

    if (!t->audio_id) {
        submit(t);
        if (!t->audio_id)
            return true; /* it was refused, and its decoding is over */
    }
    return inf_transcriber_feed(t->resident->transcriber, t->audio_id, samples, n) !=
           INF_AUDIO_FULL;
}

/* What a decoder said, as a sentence about the file. */
static void refuse_file(struct transcription *t, const struct decoder_end *end)
{
    const unsigned long long max_seconds = t->audio->config->audio.max_seconds;

    t->audio->stats.n_undecodable++;
    switch (end->result) {
    case DECODER_UNKNOWN:
        transcription_fail(t, 400, "audio_unknown_format",
                           "The file is of no known audio format; there are aac, aiff, amr, caf, "
                           "flac, mov/mp4/m4a, mp3, ogg, wav, webm/mkv, and wma.");
        break;
    case DECODER_NO_AUDIO:
        transcription_fail(t, 400, "audio_empty", "The file (%s) has no sound.", end->format);
        break;
    case DECODER_CODEC:
        transcription_fail(t, 400, "audio_unsupported_codec",
                           "The sound in the file (%s) has the codec %s, which is not supported.",
                           end->format, end->codec);
        break;
    case DECODER_TOO_LONG:
        transcription_fail(t, 413, "audio_too_long",
                           "The sound is longer than %llu seconds, which is the limit here.",
                           max_seconds);
        break;
    case DECODER_MEMORY:
        transcription_fail(t, 400, "audio_too_complex",
                           "The file (%s) takes more memory to decode than is allowed.",
                           end->format);
        break;
    default:
        transcription_fail(t, 400, "audio_broken", "The file (%s) is damaged.",
                           end->format[0] ? end->format : "audio");
        break;
    }
}

static void on_decoded(void *user, enum decoding_outcome outcome, const struct decoder_end *end)
{
    struct transcription *t = user;

    t->decoding = NULL;
    switch (outcome) {
    case DECODING_TOLD:
        if (end->result == DECODER_OK)
            inf_transcriber_finish(t->resident->transcriber, t->audio_id);
        else
            refuse_file(t, end);
        return;
    case DECODING_CRASHED:
        t->audio->stats.n_crashes++;
        log_warn("a decoder crashed on a file of %s", t->request_id);
        transcription_fail(t, 400, "audio_broken", "The file could not be decoded.");
        return;
    case DECODING_SLOW:
        t->audio->stats.n_crashes++;
        transcription_fail(t, 400, "audio_too_complex",
                           "The file takes longer to decode than is allowed.");
        return;
    case DECODING_LOST:
        break;
    }
    transcription_fail(t, 503, "decoder_lost", "The service must start again; try again.");
}

static void decode(struct transcription *t)
{
    static const struct decoding_events events = {on_samples, on_decoded};
    const uint64_t max_seconds = t->audio->config->audio.max_seconds;
    const struct decoding_params params = {
        .file = t->params.file,
        .size = t->params.size,
        .max_samples = max_seconds ? max_seconds * DECODER_RATE : UINT64_MAX,
        .max_memory = DECODER_MEMORY_BYTES,
        .max_cpu_sec = DECODER_CPU_SEC + (uint32_t)(MIN(max_seconds, 1u << 20) / DECODER_CPU_SHARE),
    };
    const int r = decoding_start(t->audio->decoder, &params, &events, t, &t->decoding);

    if (r == -EPIPE) {
        on_decoded(t, DECODING_LOST, NULL);
        return;
    }
    if (r < 0) {
        transcription_fail(t, r == -EAGAIN ? 429 : 503, r == -EAGAIN ? "queue_full" : "overloaded",
                           "Too many files are being decoded; try again later.");
        return;
    }
    close(t->params.file);
    t->params.file = -1;
}

/* --- the model --- */

static void on_ready(struct resident_waiter *waiter, struct resident *resident,
                     const struct problem *problem)
{
    struct transcription *t =
        (struct transcription *)((char *)waiter - offsetof(struct transcription, waiter));

    if (!resident) {
        refuse(t, problem);
        return;
    }
    t->resident = resident;
    if (t->params.silence == AUDIO_SILENCE_SKIPPED &&
        !inf_transcriber_has_vad(resident->transcriber))
        transcription_fail(t, 400, "no_vad_model",
                           "Silence cannot be skipped: weights of Silero VAD "
                           "(silero*.safetensors or ggml-silero*.bin) were in no model directory "
                           "when the model was loaded.");
    else
        decode(t);
}

static const struct models_entry *find_model(struct transcription *t, struct problem *problem)
{
    const struct config *config = t->audio->config;
    const char *name = t->params.model ? t->params.model : config->audio.default_model;
    const struct models *models = audio_models(t->audio);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models) {
        problem_set(problem, 500, "models_unreadable", NULL,
                    "The list of installed models cannot be read; see the service's log.");
        return NULL;
    }
    entry = name ? models_find(models, name) : models_only(models, MODELS_SPEECH);
    if (entry)
        return entry;
    names = models_names_of(models, MODELS_SPEECH);
    if (name)
        problem_set(problem, 404, "model_not_found", "model",
                    "The model '%.100s'%s does not exist here. Installed for speech: %.300s.", name,
                    t->params.model ? "" : ", which the configuration makes the default,",
                    names && *names ? names : "none");
    else if (names && *names)
        problem_set(problem, 400, "missing_field", "model",
                    "Missing required parameter: 'model'. No default is chosen either "
                    "(audio.default_model); installed: %.300s.",
                    names);
    else
        problem_set(problem, 404, "no_speech_model", "model",
                    "No model for speech is installed here. Put one of Whisper's into a model "
                    "directory (`sconce list` shows what is there), and name it in the request or "
                    "as audio.default_model in the configuration.");
    return NULL;
}

static void read_form(struct transcription *t, enum inf_audio_task task)
{
    const struct models_entry *entry;
    struct http_text type = {NULL, 0};
    struct problem problem;

    http_request_header(t->http, "content-type", &type);
    if (form_read(&t->params, task, type, http_request_body(t->http), &problem) < 0 ||
        !(entry = find_model(t, &problem)))
        refuse(t, &problem);
    else
        resident_want(t->audio, entry, &t->waiter);
}

void transcription_new(struct audio *audio, enum inf_audio_task task, struct http_request *request)
{
    const uint64_t timeout = audio->config->audio.request_timeout_usec;
    struct transcription *t = NEW(struct transcription, 1);
    struct problem problem;

    if (!t) {
        problem_set(&problem, 503, "out_of_memory", NULL, "Out of memory.");
        problem_send(&problem, request);
        return;
    }
    t->audio = audio;
    t->http = request;
    t->n_refs = 1;
    t->params.file = -1;
    t->start_usec = http_request_start_usec(request);
    t->waiter.ready = on_ready;
    t->timer = (struct loop_timer){.fire = on_timer, .data = t};
    t->next = audio->transcriptions;
    if (t->next)
        t->next->prev = t;
    audio->transcriptions = t;
    audio->n_transcriptions++;
    audio->stats.n_requests++;
    request_id_take(request, "req_", t->request_id);
    http_request_set_events(request, &http_events, t);
    if (audio->n_transcriptions > audio->config->audio.max_queue) {
        transcription_fail(t, 429, "queue_full", "Too many requests are waiting; try again later.");
        return;
    }
    if (timeout)
        t->deadline_usec = t->start_usec + timeout;
    loop_timer_set(audio->loop, &t->timer, TICK_USEC);
    read_form(t, task);
}
