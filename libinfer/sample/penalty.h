/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stages that change logits: bias, repetition, presence and frequency. */

#include "sample/sampler.h"

/* @counts: [n_vocab], all zero before and after. */
void penalty_apply(const struct sample_params *p, const int32_t *tokens, uint32_t n_tokens,
                   uint32_t n_prompt, uint32_t *counts, float *logits, uint32_t n_vocab);
