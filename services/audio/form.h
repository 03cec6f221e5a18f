/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the form of a transcription request: checks its fields, and puts its file into sealed
 * memory.
 *
 * An unknown field is refused with an error that names it. A field that is given twice is refused
 * unless it may be repeated. An empty field counts as not given, as is usual for forms.
 */

#include <infer/audio.h>

#include "common/http/http.h"
#include "common/http/problem.h"

enum audio_format {
    AUDIO_JSON,
    AUDIO_TEXT,
    AUDIO_SRT,
    AUDIO_VTT,
    AUDIO_VERBOSE,
};

enum audio_silence {
    AUDIO_SILENCE_USUAL,   /* according to the configuration */
    AUDIO_SILENCE_KEPT,    /* silence is transcribed too */
    AUDIO_SILENCE_AUTO,    /* silence is skipped if possible */
    AUDIO_SILENCE_SKIPPED, /* silence is skipped, or the request fails */
};

struct audio_params {
    enum inf_audio_task task;
    enum audio_format format;
    char *model, *language, *prompt, *hotwords; /* NULL: not given */
    char *filename;                             /* the client's name of the file; NULL: not given */
    float temperature;
    bool has_temperature, stream, segments, words, has_granularity;
    enum audio_silence silence;
    struct inf_audio_vad vad;
    uint32_t beam_size, best_of;
    int64_t seed; /* -1: not given */
    int file;     /* sealed memfd; -1: none */
    uint64_t size;
};

/* Reads the form in a request body. Returns 0, or -EINVAL with a problem. Call form_done()
 * afterwards in both cases. */
int form_read(struct audio_params *params, enum inf_audio_task task, struct http_text type,
              struct http_text body, struct problem *problem);
void form_done(struct audio_params *params);
