/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stage `infill` of llama.cpp (llama_sampler_init_infill(), 2026), for text in the middle of
 * other text. It makes the text end early rather than too late. */

#include "sample/sampler.h"
#include "sample/select.h"

/* Limits the work of the stage, which grows with the square of the number of candidates. */
#define INFILL_MAX_CANDS 128u

/*
 * Leaves out candidates, whose masses must be set and have the sum @total:
 *   1. Let n be the number of candidates. If the mass of the tokens that end the text, times 3n, is
 *      more than the mass of the others, only the tokens that end the text remain.
 *   2. Otherwise, if one token is the beginning of another, the likelier one gets the mass of both.
 *   3. Tokens that do not end the text are left out if they have less than 0.2 of the mass. If m of
 *      them remain, those with less than 1/(m + 1) of the mass that remains are left out as well.
 * If none of them remains, the text ends. Moves the tokens that remain to the front, and returns
 * their number. @logits is the row.
 */
uint32_t infill_cut(const struct sample_vocab *vocab, const float *logits, struct cand *c,
                    uint32_t n, double total);
