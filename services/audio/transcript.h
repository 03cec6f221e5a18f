/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores a transcript, and writes it as json, text, srt, vtt or verbose_json.
 *
 * Segments are stored as they arrive. Stored texts are those of the model, with leading spaces;
 * written texts are trimmed, except those of the segments of verbose_json.
 */

#include "audio/form.h"
#include "core/str.h"

struct transcript_word {
    char *text;
    double start, end;
};

struct transcript_segment {
    uint32_t id, seek;
    double start, end;
    char *text;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    float temperature, avg_logprob, compression_ratio, no_speech_prob;
    struct transcript_word *words; /* [n_words] */
    size_t n_words;
};

struct transcript {
    struct transcript_segment *segments; /* [n] */
    size_t n, cap;
    struct str text; /* text of all segments, trimmed */
    char language[16];
    double seconds; /* length of the audio */
};

void transcript_done(struct transcript *t);
/* Adds a copy of a segment. *ret_delta is the text that the function adds to t->text; it is valid
 * until the next call. Returns 0 or -ENOMEM. */
int transcript_add(struct transcript *t, const struct inf_audio_event *event,
                   struct http_text *ret_delta);
/* Writes the answer. -ENOMEM. */
int transcript_write(const struct transcript *t, const struct audio_params *params,
                     struct str *out);
/* Writes {"type":"duration","seconds":N}. */
int transcript_put_usage(const struct transcript *t, struct str *out);
/* Returns the Content-Type of a format; static. */
const char *transcript_type(enum audio_format format);
/* Returns "english" for "en"; unknown codes unchanged. */
const char *language_name(const char *code);
