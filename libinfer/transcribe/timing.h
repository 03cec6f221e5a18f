/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the words of a window, and their times.
 *
 * The decoder reads the text once more, without its time tokens. Some of its heads attend to the
 * window, and their scores give the time of each token (transcribe/align.h, transcribe/words.h).
 */

#include "transcribe/decode-texts.h"
#include "transcribe/tokens.h"
#include "transcribe/words.h"

struct timing_params {
    struct decode *decode;
    const struct kv_table *memory;
    struct kv_table *text; /* working memory; empty before and after */
    const struct inf_tokenizer *tok;
    const struct speech_tokens *tokens;
    const int32_t *start; /* tokens that begin a transcript */
    uint32_t n_start;
    uint32_t n_heads;  /* heads whose scores the decoder can return */
    uint32_t n_frames; /* frames of 10 ms, without silence after the end of the recording */
    bool has_blanks;   /* the language is written with blanks between words */
    float *logits;     /* working memory: [n_logits, n_vocab] */
    uint32_t n_logits; /* limit of rows per step */
};

struct timing {
    struct word *words;
    size_t n_words;
    char *text; /* text of all tokens */
    size_t *ends;
    struct words_lengths lengths;
};

/* Makes words of @n text tokens. If there is no sound or no head, there are no words. -ENOMEM, or
 * an error of the backend's run(). Free *ret_timing with timing_done(). */
int timing_make(const struct timing_params *p, const int32_t *said, uint32_t n,
                struct timing *ret_timing);
void timing_done(struct timing *t);
