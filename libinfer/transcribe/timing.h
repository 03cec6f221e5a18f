/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words of a window, with their times
 *
 * The decoder reads the text once more, without its times, and the scores of some heads of its
 * attention to the window tell when each token was said (transcribe/align.h, transcribe/words.h).
 */

#include "transcribe/decode-texts.h"
#include "transcribe/tokens.h"
#include "transcribe/words.h"

struct timing_params {
    struct decode *decode;
    const struct kv_table *memory;
    struct kv_table *text; /* scratch; empty before and after */
    const struct inf_tokenizer *tok;
    const struct speech_tokens *tokens;
    const int32_t *start; /* tokens that begin a transcript */
    uint32_t n_start;
    uint32_t n_heads;  /* that the decoder keeps */
    uint32_t n_frames; /* of 10 ms, with sound */
    bool has_blanks;   /* the language writes them between words */
    float *logits;     /* scratch: [n_logits, n_vocab] */
    uint32_t n_logits; /* rows of a step, at most */
};

struct timing {
    struct word *words;
    size_t n_words;
    char *text; /* of all tokens */
    size_t *ends;
    struct words_lengths lengths;
};

/* Words of @n tokens of text, which are no times; none when there is no sound. -ENOMEM, or as the
 * backend's run(). *ret_timing is to be freed by timing_done(). */
int timing_make(const struct timing_params *p, const int32_t *said, uint32_t n,
                struct timing *ret_timing);
void timing_done(struct timing *t);
