/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes a long recording window by window.
 *
 * A window is 30 s from the current position. The text of a window may be refused: if it is too
 * repetitive or too improbable, the window is decoded again at the next temperature. Times among
 * the tokens of an accepted text cut this text into segments, and the next window begins at the end
 * of the last complete segment. The accepted text becomes the prompt of the next window, unless it
 * was decoded at a high temperature. These are the rules of OpenAI's whisper.
 *
 * Times are counted in frames of 10 ms; time tokens count steps of two frames.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    LONGFORM_WINDOW = 3000, /* frames */
    LONGFORM_MAX_TEMPERATURES = 8,
};

struct longform_params {
    int32_t timestamp_begin;
    uint32_t n_context; /* context of the decoder in tokens; the prompt takes at most half of it */
    double temperatures[LONGFORM_MAX_TEMPERATURES];
    uint32_t n_temperatures;
    /* Limits; NAN: none. */
    double max_compression;     /* usually 2.4 */
    double min_log_probability; /* mean per token, usually -1 */
    double max_no_speech;       /* usually 0.6; above it, an improbable text counts as silence */
    bool carry;                 /* use the text as prompt of the next window */
    bool keep_initial;          /* the prompt of every window begins with the initial prompt */
};

/* The text of a window, without its end token. Borrowed. */
struct longform_result {
    const int32_t *tokens;
    size_t n_tokens;
    double log_probability; /* mean per token, including the end */
    double compression;     /* longform_compression() of the text */
    double no_speech;       /* probability; NAN: the model has no such token */
};

struct longform_segment {
    int64_t start, end;     /* frames of the recording */
    size_t first, n_tokens; /* position and number among the tokens of the result */
    bool is_empty;          /* no duration or no text: neither sent nor used as prompt */
};

/* Position and prompt of the next window. Borrowed until the result is taken. */
struct longform_window {
    uint64_t seek;     /* first frame */
    uint32_t n_frames; /* LONGFORM_WINDOW, or fewer at the end of the recording */
    double temperature;
    const int32_t *prompt, *more; /* the initial prompt, if it is kept; then earlier text */
    size_t n_prompt, n_more;
};

enum {
    LONGFORM_AGAIN = 1, /* decode the same window at the next temperature */
    LONGFORM_END = 2,   /* the recording is over */
};

struct longform;

/* Begins the work on one recording. @initial: the tokens of the initial prompt, which are copied.
 * Tokens that do not fit into half of the context are not used. -ENOMEM. */
int longform_new(const struct longform_params *params, const int32_t *initial, size_t n_initial,
                 struct longform **ret_lf);
struct longform *longform_free(struct longform *lf);
DEFINE_CLEANUP(struct longform *, longform_free);

/* Finds the next window of a recording of @n_frames. LONGFORM_END: the whole recording was
 * processed. While the recording is still arriving, the caller must wait until @n_frames is at
 * least longform_seek() + LONGFORM_WINDOW. */
int longform_next(struct longform *lf, uint64_t n_frames, struct longform_window *ret_window);
uint64_t longform_seek(const struct longform *lf);

/* Returns whether the text of these tokens is only white space. */
typedef bool (*longform_blank_fn)(void *arg, const int32_t *tokens, size_t n);

/*
 * Takes the result of the window. Returns 0 if the text is accepted; its segments are in
 * *ret_segments, borrowed until the next call. A silent window has no segments. LONGFORM_AGAIN: the
 * text is refused. -ENOMEM.
 */
int longform_take(struct longform *lf, const struct longform_result *result,
                  longform_blank_fn is_blank, void *arg,
                  const struct longform_segment **ret_segments, size_t *ret_n);
/* Marks segment @i of the last longform_take() as empty, because its text is blank, or because it
 * has no duration after its words were placed. */
void longform_forget(struct longform *lf, size_t i);
/* Says that the speech in the window of the last longform_take() ended at @frame, as the times of
 * its words show. The next window begins at this frame, unless the last window ended in silence. */
void longform_words_end(struct longform *lf, int64_t frame);

/* Computes the size of a text divided by its size after compression with zlib; 0 if the text is
 * empty. -ENOMEM. */
int longform_compression(const char *text, size_t len, double *ret_ratio);
