/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Log-probabilities of a row of raw logits: before bias, penalties and temperature. */

#include <infer/engine.h>

#define LOGPROB_MAX_TOP 64

/*
 * The log-softmax of @token (may be negative: none, *ret_logprob is then NAN) over a row of
 * @n_row logits, and the @n_top ≤ LOGPROB_MAX_TOP most likely of the first @n_vocab tokens.
 * Returns how many are in @ret_top. A row with NaN gives NAN and none.
 */
uint32_t logprob_row(const float *logits, uint32_t n_row, uint32_t n_vocab, int32_t token,
                     uint32_t n_top, float *ret_logprob, struct inf_top_logprob *ret_top);
