/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds spans of speech in a signal, from a probability for every VAD_CHUNK samples.
 *
 * The rules are those of Silero's get_speech_timestamps(). A span begins where the probability
 * reaches the threshold, and ends where the probability falls below a lower threshold and does
 * not reach the threshold again for a while. Spans that are too short are dropped. A span that
 * grows too long is cut in the longest of its pauses, or at its current end if it has no pause.
 * Finally spans are widened, but never so far that they overlap. A span is returned as soon as
 * later chunks cannot change it.
 */

#include <stdbool.h>
#include <stdint.h>

struct speech_params {
    float threshold;
    float low_threshold;     /* < 0: threshold - 0.15, at least 0.01 */
    uint32_t min_speech_ms;  /* a span must be longer */
    uint32_t max_speech_ms;  /* 0: no limit */
    uint32_t min_silence_ms; /* length of a pause that ends a span */
    uint32_t min_pause_ms;   /* a span may be cut only in a longer pause */
    uint32_t pad_ms;         /* milliseconds by which a span is widened on each side */
};

/* Silero's defaults. */
#define SPEECH_PARAMS_DEFAULT ((struct speech_params){0.5f, -1, 250, 0, 100, 98, 30})

struct speech_span {
    uint64_t start, end; /* samples */
};

struct speech_finder {
    struct speech_params params;
    uint64_t at; /* samples processed so far */
    bool speaking;
    uint64_t start;    /* start of the current span */
    uint64_t pause;    /* start of the pause that may end the span; 0: none */
    uint64_t cut;      /* start of the longest pause so far */
    uint64_t cut_size; /* 0: none */
    bool has_pending;  /* `pending` is a finished span that is not final yet */
    struct speech_span pending;
};

void speech_finder_init(struct speech_finder *f, const struct speech_params *params);
/* Takes the probability of the next chunk. Returns true if *ret_span is a final span. */
bool speech_finder_push(struct speech_finder *f, float probability, struct speech_span *ret_span);
/* Ends a signal of @n_samples. Returns true if *ret_span is a final span; the caller repeats the
 * call until it returns false. */
bool speech_finder_end(struct speech_finder *f, uint64_t n_samples, struct speech_span *ret_span);
