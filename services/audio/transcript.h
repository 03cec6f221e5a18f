/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was heard, and how it is written: json, text, srt, vtt, verbose_json
 *
 * Segments are kept as they come. Texts are those of the model, with their leading spaces; what is
 * written has none around it.
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
    struct str text; /* of all, without spaces around it */
    char language[16];
    double seconds; /* of sound */
};

void transcript_done(struct transcript *t);
/* A segment; copies. *ret_delta is what it adds to t->text, good until the next call. -ENOMEM. */
int transcript_add(struct transcript *t, const struct inf_audio_event *event,
                   struct http_text *ret_delta);
/* The answer. -ENOMEM. */
int transcript_write(const struct transcript *t, const struct audio_params *params,
                     struct str *out);
/* {"type":"duration","seconds":N} */
int transcript_put_usage(const struct transcript *t, struct str *out);
/* The Content-Type of a format; static. */
const char *transcript_type(enum audio_format format);
/* "english" of "en"; what is unknown stays as it is. */
const char *language_name(const char *code);
