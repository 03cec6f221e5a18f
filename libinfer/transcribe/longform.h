/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From window to window through a long recording
 *
 * A window is 30 s from the place that was reached. What is heard there may be refused: too
 * repetitive or too improbable texts are decoded again at the next temperature. Times among its
 * tokens cut it into segments, and the next window begins where the last whole one ended. What was
 * said is the prompt of the next window, unless it was said at a high temperature. These are the
 * rules of OpenAI's whisper.
 *
 * Times are counted in frames of 10 ms; a time token is two of them.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    LONGFORM_WINDOW = 3000, /* frames */
    LONGFORM_MAX_TEMPERATURES = 8,
};

struct longform_params {
    int32_t timestamp_begin;
    uint32_t n_context; /* of the decoder, in tokens; half of it may be prompt */
    double temperatures[LONGFORM_MAX_TEMPERATURES];
    uint32_t n_temperatures;
    /* NAN: no such limit. */
    double max_compression;     /* 2.4 */
    double min_log_probability; /* -1: mean of a token */
    double max_no_speech;       /* 0.6: above, an improbable text is silence */
    bool carry;                 /* what was said is the prompt of what follows */
    bool keep_initial;          /* the initial prompt begins the prompt of every window */
};

/* What was heard in a window, without the end of the text. Borrowed. */
struct longform_result {
    const int32_t *tokens;
    size_t n_tokens;
    double log_probability; /* mean of a token, the end included */
    double compression;     /* longform_compression() of the text */
    double no_speech;       /* probability; NAN: the model has no such token */
};

struct longform_segment {
    int64_t start, end;     /* frames of the recording */
    size_t first, n_tokens; /* among those of the result */
    bool is_empty;          /* no time or no text: not for the reader, nor for the prompt */
};

/* Where the next window is and what is told to the decoder about it. Borrowed until the result is
 * taken. */
struct longform_window {
    uint64_t seek;     /* first frame */
    uint32_t n_frames; /* up to LONGFORM_WINDOW: what is behind them is no sound */
    double temperature;
    const int32_t *prompt, *more; /* the initial prompt, if it is kept; then what was said */
    size_t n_prompt, n_more;
};

enum {
    LONGFORM_AGAIN = 1, /* the same window at the next temperature */
    LONGFORM_END = 2,   /* the recording is over */
};

struct longform;

/* @initial: tokens of a prompt, copied; no more than half of the context is used. -ENOMEM. */
int longform_new(const struct longform_params *params, const int32_t *initial, size_t n_initial,
                 struct longform **ret_lf);
struct longform *longform_free(struct longform *lf);
DEFINE_CLEANUP(struct longform *, longform_free);

/* The next window of a recording of @n_frames. LONGFORM_END when all was heard. While the recording
 * still comes in, its caller waits until @n_frames is at least LONGFORM_WINDOW behind
 * longform_seek(). */
int longform_next(struct longform *lf, uint64_t n_frames, struct longform_window *ret_window);
uint64_t longform_seek(const struct longform *lf);

/* Whether a text of these tokens is nothing but white space. */
typedef bool (*longform_blank_fn)(void *arg, const int32_t *tokens, size_t n);

/*
 * Takes the result of the window. 0: it stands, and its segments are in *ret_segments, borrowed
 * until the next call; none where there was silence. LONGFORM_AGAIN: it is refused. -ENOMEM.
 */
int longform_take(struct longform *lf, const struct longform_result *result,
                  longform_blank_fn is_blank, void *arg,
                  const struct longform_segment **ret_segments, size_t *ret_n);
/* After longform_take(): segment @i, whose words were looked at, is empty after all. */
void longform_forget(struct longform *lf, size_t i);
/* After longform_take(): words tell that speech ended at @frame, so that the next window begins
 * there, if the last window did not end in silence. */
void longform_words_end(struct longform *lf, int64_t frame);

/* Bytes of a text over those that zlib makes of it; 0 when it is empty. -ENOMEM. */
int longform_compression(const char *text, size_t len, double *ret_ratio);
