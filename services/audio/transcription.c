/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves requests to transcribe or translate speech.
 *
 * No field stores the state of a request, because other fields show it. While the field `waiter` is
 * in use, the request waits for its model. While it has a decoding, it receives samples. While it
 * has an audio_id, it is in the transcriber.
 */
#include "audio/transcription.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audio/audio.h"
#include "common/config/config.h"
#include "common/http/sse.h"
#include "common/models/models.h"
#include "common/service/log.h"
#include "common/wire/json.h"
#include "core/clock.h"

/* Bytes of memory that a decoder may use in addition to the file. */
#define DECODER_MEMORY_BYTES (512u << 20)
/* Processor time that a decoder may use: DECODER_CPU_SEC seconds, and one more second for each
 * DECODER_CPU_SHARE seconds of audio that audio.max_seconds allows. */
#define DECODER_CPU_SEC   30
#define DECODER_CPU_SHARE 50

static struct transcription *transcription_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct transcription, request);
}

static void on_free(struct model_request *request)
{
    struct transcription *t = transcription_of(request);

    transcript_done(&t->transcript);
    form_done(&t->params);
}

static void transcription_count(const struct model_request *request,
                                uint64_t numbers[HISTORY_NUMBERS])
{
    const struct transcription *t = CONTAINER_OF(request, struct transcription, request);

    numbers[HISTORY_AUDIO_MSEC] = (uint64_t)(t->transcript.seconds * 1000);
    if (!t->first_usec)
        return;
    numbers[HISTORY_FIRSTS] = 1;
    numbers[HISTORY_FIRST_USEC] = numbers[HISTORY_FIRST_MAX] = t->first_usec - request->start_usec;
}

static void transcription_cancel(struct model_request *request)
{
    struct transcription *t = transcription_of(request);

    t->decoding = decoding_cancel(t->decoding);
    if (t->audio_id)
        inf_transcriber_cancel(t->resident->transcriber, t->audio_id);
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
    return r < 0 ? r : sse_send(t->request.http, &event);
}

static void begin_stream(struct transcription *t)
{
    if (!t->request.streaming)
        stream_begin(t->request.http, SSE_TYPE);
    t->request.streaming = true;
}

static void out_of_memory(struct transcription *t)
{
    model_request_fail(&t->request, 503, "out_of_memory", "Out of memory.");
}

static void on_segment(struct transcription *t, const struct inf_audio_event *event)
{
    struct http_text delta;

    if (transcript_add(&t->transcript, event, &delta) < 0) {
        out_of_memory(t);
        return;
    }
    if (!t->first_usec) {
        t->first_usec = clock_usec();
        metrics_observe(&t->audio->stats.first_text, model_request_seconds(&t->request));
    }
    if (!t->params.stream || !delta.len)
        return;
    begin_stream(t);
    if (stream_event(t, "transcript.text.delta", "delta", delta, false) < 0)
        out_of_memory(t);
}

static void transcription_answer(struct transcription *t)
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
    t->request.ended = true;
    t->audio->stats.n_answered++;
    t->audio->stats.seconds += t->transcript.seconds;
    if (t->params.stream)
        sse_done(t->request.http);
    else
        http_respond(t->request.http, 200, transcript_type(t->params.format), out.data, out.len);
}

void transcription_on_event(struct transcription *t, const struct inf_audio_event *event)
{
    const bool last = event->kind == INF_AUDIO_DONE || event->kind == INF_AUDIO_FAILED;
    const bool wanted = model_request_is_wanted(&t->request);

    if (last)
        t->audio_id = 0;
    if (wanted && event->kind == INF_AUDIO_LANGUAGE)
        snprintf(t->transcript.language, sizeof(t->transcript.language), "%s", event->language);
    else if (wanted && event->kind == INF_AUDIO_SEGMENT)
        on_segment(t, event);
    else if (wanted && event->kind == INF_AUDIO_ROOM && t->decoding)
        decoding_resume(t->decoding);
    else if (wanted && event->kind == INF_AUDIO_FAILED && event->error == -ESTALE)
        model_request_stale(&t->request);
    else if (wanted && event->kind == INF_AUDIO_FAILED)
        model_request_fail(&t->request, 500, "model_failed", "The model failed: %s.",
                           strerror(-event->error));
    if (wanted && event->kind == INF_AUDIO_DONE) {
        t->transcript.seconds = event->seconds;
        transcription_answer(t);
    }
    if (last)
        model_request_unref(&t->request);
}

/* --- the file --- */

static bool skips_silence(const struct transcription *t)
{
    const enum audio_silence silence = t->params.silence;

    return silence == AUDIO_SILENCE_SKIPPED || silence == AUDIO_SILENCE_AUTO ||
           (silence == AUDIO_SILENCE_USUAL && t->request.host->config->audio.vad_model);
}

static void transcription_submit(struct transcription *t)
{
    const struct audio_params *p = &t->params;
    const struct inf_audio_request request = {
        .task = p->task,
        .language = p->language,
        .prompt = p->prompt,
        .hotwords = p->hotwords,
        /* 0 selects the sequence of temperatures that OpenAI's whisper uses. */
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
        model_request_ref(&t->request);
        return;
    }
    t->audio_id = 0;
    if (r == INF_AUDIO_FULL)
        model_request_fail(&t->request, 429, "queue_full",
                           "Too many requests are waiting for this model; try again later.");
    else if (r == -EINVAL)
        model_request_fail(&t->request, 400, "invalid_value", "The request cannot be run: %s.",
                           err.text);
    else if (r == -ESTALE)
        model_request_stale(&t->request);
    else
        model_request_fail(&t->request, 503, "model_failed", "The request cannot be run: %s.",
                           err.text[0] ? err.text : strerror(-r));
}

static bool on_samples(void *user, const float *samples, size_t n)
{
    struct transcription *t = user;

    if (!t->audio_id) {
        transcription_submit(t);
        if (!t->audio_id)
            return true; /* the request was refused, and its decoding has ended */
    }
    return inf_transcriber_feed(t->resident->transcriber, t->audio_id, samples, n) !=
           INF_AUDIO_FULL;
}

/* Refuses the file with a sentence that explains the decoder's result. */
static void refuse_file(struct transcription *t, const struct decoder_end *end)
{
    const unsigned long long max_seconds = t->request.host->config->audio.max_seconds;

    t->audio->stats.n_undecodable++;
    switch (end->result) {
    case DECODER_UNKNOWN:
        model_request_fail(&t->request, 400, "audio_unknown_format",
                           "The file has no known audio format; supported are aac, aiff, amr, caf, "
                           "flac, mov/mp4/m4a, mp3, ogg, wav, webm/mkv, and wma.");
        break;
    case DECODER_NO_AUDIO:
        model_request_fail(&t->request, 400, "audio_empty", "The file (%s) has no sound.",
                           end->format);
        break;
    case DECODER_CODEC:
        model_request_fail(&t->request, 400, "audio_unsupported_codec",
                           "The sound in the file (%s) has the codec %s, which is not supported.",
                           end->format, end->codec);
        break;
    case DECODER_TOO_LONG:
        model_request_fail(&t->request, 413, "audio_too_long",
                           "The sound is longer than %llu seconds, which is the limit here.",
                           max_seconds);
        break;
    case DECODER_MEMORY:
        model_request_fail(&t->request, 400, "audio_too_complex",
                           "The file (%s) takes more memory to decode than is allowed.",
                           end->format);
        break;
    default:
        model_request_fail(&t->request, 400, "audio_broken", "The file (%s) is damaged.",
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
        log_warn("a decoder crashed on a file of %s", t->request.id);
        model_request_fail(&t->request, 400, "audio_broken", "The file could not be decoded.");
        return;
    case DECODING_SLOW:
        t->audio->stats.n_crashes++;
        model_request_fail(&t->request, 400, "audio_too_complex",
                           "The file takes longer to decode than is allowed.");
        return;
    case DECODING_LOST:
        break;
    }
    model_request_fail(&t->request, 503, "decoder_lost", "The service is restarting; try again.");
}

static void transcription_decode(struct transcription *t)
{
    static const struct decoding_events events = {on_samples, on_decoded};
    const uint64_t max_seconds = t->request.host->config->audio.max_seconds;
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
        model_request_fail(&t->request, r == -EAGAIN ? 429 : 503,
                           r == -EAGAIN ? "queue_full" : "overloaded",
                           "Too many files are being decoded; try again later.");
        return;
    }
    close(t->params.file);
    t->params.file = -1;
}

/* --- the model --- */

static void on_ready(struct model_request *request)
{
    struct transcription *t = transcription_of(request);

    t->resident = audio_resident_of(request->resident);
    if (t->params.silence == AUDIO_SILENCE_SKIPPED &&
        !inf_transcriber_has_vad(t->resident->transcriber))
        model_request_fail(request, 400, "no_vad_model",
                           "Silence cannot be skipped: weights of Silero VAD "
                           "(silero*.safetensors or ggml-silero*.bin) were in no model directory "
                           "when the model was loaded.");
    else
        transcription_decode(t);
}

static const struct models_entry *find_model(struct transcription *t, struct problem *problem)
{
    const struct config *config = t->request.host->config;
    const char *name = t->params.model ? t->params.model : config->audio.default_model;
    const struct models *models = model_host_list(t->request.host, name, problem);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models)
        return NULL;
    entry = name ? models_find(models, name) : models_only(models, MODELS_SPEECH);
    if (entry || (name && model_host_is_broken(models, name, problem)))
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
                    "No model for speech is installed here. Put a Whisper model into a model "
                    "directory (`sconce list` shows what is there), and name it in the request or "
                    "as audio.default_model in the configuration.");
    return NULL;
}

static void read_form(struct transcription *t, enum inf_audio_task task)
{
    const struct models_entry *entry;
    struct http_text type = {NULL, 0};
    struct problem problem;

    http_request_header(t->request.http, "content-type", &type);
    if (form_read(&t->params, task, type, http_request_body(t->request.http), &problem) < 0 ||
        !(entry = find_model(t, &problem)))
        model_request_refuse(&t->request, &problem);
    else
        model_request_want(&t->request, entry, NULL);
}

void transcription_new(struct model_host *host, const void *task, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct transcription),
        .ready = on_ready,
        .cancel = transcription_cancel,
        .count = transcription_count,
        .done = on_free,
    };
    struct model_request *request = model_request_new(host, &ops, http);
    struct transcription *t = transcription_of(request);

    if (!request)
        return;
    t->audio = CONTAINER_OF(host, struct audio, host);
    t->params.file = -1;
    if (model_request_admit(request))
        read_form(t, *(const enum inf_audio_task *)task);
}
