/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the times of tokens.
 *
 * Some heads of the decoder's cross-attention attend to the sound of the word that the decoder is
 * about to write. The attention weights of these heads are normalized, smoothed and averaged. The
 * cheapest monotonic path through the averaged weights (dynamic time warping) gives each token its
 * time. This is the method of OpenAI's whisper.
 */

#include <stddef.h>
#include <stdint.h>

struct align_params {
    uint32_t n_heads;
    uint32_t n_tokens; /* rows per head: the beginning of the prompt, the text, its end */
    uint32_t n_frames; /* frames of 20 ms, without silence after the end of the recording */
    uint32_t n_skip;   /* first rows, which are used only for normalization */
};

/*
 * Finds the first frame of each token. @scores: [n_heads][n_tokens][n_frames], products of queries
 * and keys before the softmax; overwritten. @ret_frames: [n_tokens - n_skip - 1], for all rows
 * except the skipped rows and the last row. Counts are at least 1, and n_tokens ≥ n_skip + 2.
 * -ENOMEM.
 */
int align_tokens(const struct align_params *p, float *scores, uint32_t *ret_frames);
/* Does a part of align_tokens(), for some of the heads: adds the heads of @scores to @sum,
 * [n_tokens][n_frames], which is zeroed before the first call. -ENOMEM. */
int align_add(const struct align_params *p, float *scores, float *sum);
/* Does the rest of align_tokens() after all calls of align_add(). Here p->n_heads is the number of
 * heads that these calls added together. @sum is overwritten. -ENOMEM. */
int align_path(const struct align_params *p, float *sum, uint32_t *ret_frames);
