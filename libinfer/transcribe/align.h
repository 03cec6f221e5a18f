/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When each token was said
 *
 * Some heads of the decoder's cross-attention look at the sound of the word that they are about to
 * say. Their weights are taken to the same scale, smoothed and averaged, and the cheapest
 * monotonous path through them (dynamic time warping) gives each token its time: the method of
 * OpenAI's whisper.
 */

#include <stddef.h>
#include <stdint.h>

struct align_params {
    uint32_t n_heads;
    uint32_t n_tokens; /* rows of each head: what begins the prompt, the text, its end */
    uint32_t n_frames; /* of 20 ms, only those with sound */
    uint32_t n_skip;   /* first rows that only count for the scale */
};

/*
 * @scores: [n_heads][n_tokens][n_frames], products of queries and keys before the softmax;
 * overwritten. @ret_frames: [n_tokens - n_skip - 1], where each row but the skipped ones and the
 * last begins. Counts are at least 1, and n_tokens ≥ n_skip + 2. -ENOMEM.
 */
int align_tokens(const struct align_params *p, float *scores, uint32_t *ret_frames);
/* The same, some heads after others: adds those of @scores to @sum, [n_tokens][n_frames], zeroed
 * before the first. -ENOMEM. */
int align_add(const struct align_params *p, float *scores, float *sum);
/* Then, with the number of all heads in @p; @sum is overwritten. -ENOMEM. */
int align_path(const struct align_params *p, float *sum, uint32_t *ret_frames);
