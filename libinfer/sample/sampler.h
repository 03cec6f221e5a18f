/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses a token from a row of logits.
 *
 * A choice passes these stages, always in this order:
 *   1. logit_bias is added; a bias of -100 or less forbids the token
 *   2. repetition penalty, once per token in the window (the last tokens, prompt included)
 *   3. presence and frequency penalty, over generated tokens
 *   4. temperature; 0 takes the most likely token, and the stages below are skipped
 *   5. top-k
 *   6. typical-p (Meister et al. 2022)
 *   7. top-p (Holtzman et al. 2019)
 *   8. min-p (Nguyen et al. 2024), relative to the most likely remaining token
 *   9. one draw from the remaining tokens, renormalized
 * Before each of the stages 5 to 8, the probabilities of the tokens that are still possible are
 * divided by their sum. OpenAI's API also applies top-p after temperature. Top-k comes before
 * stages 6 to 8 because it limits their work. Ties always go to the lower id. Log-probabilities are
 * those of raw logits: before bias, penalties and temperature.
 *
 * A choice depends only on the row, the parameters, the sequence's tokens and its generator of
 * random numbers. A sampler is working memory for one thread; picking allocates nothing.
 *
 * If a few of the largest logits determine the choice, a list of them (core/top.h) gives exactly
 * the same token as the row, with the same random numbers.
 */

#include <infer/engine.h>

#include "core/macros.h"
#include "core/rng.h"
#include "core/top.h"

/* A copy of struct inf_sampling with defaults resolved. */
struct sample_params {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repetition, presence, frequency;
    uint32_t window;
    struct inf_logit_bias *bias; /* owned */
    size_t n_bias;
};

/* Copies @in, which must be valid (asserted). -ENOMEM. */
int sample_params_init(struct sample_params *p, const struct inf_sampling *in);
void sample_params_done(struct sample_params *p);

struct sampler;

#define SAMPLE_MAX_TOP TOP_MAX /* limit of @n_top of sampler_logprob() */

/* Positive conditions. */
enum {
    SAMPLE_BAD_ROW = 1, /* a logit is NaN or +infinity, or every token is forbidden */
};

/* Rows have @n_vocab values for tokens, and at most @n_row values in all. -ENOMEM. */
int sampler_new(uint32_t n_vocab, uint32_t n_row, struct sampler **ret_sampler);
struct sampler *sampler_free(struct sampler *s);
DEFINE_CLEANUP(struct sampler *, sampler_free);

/*
 * Picks the token that follows @tokens, of which the first @n_prompt belong to the prompt. @logits
 * are modified and restored. Greedy picks do not use @rng. Returns 0 or SAMPLE_BAD_ROW.
 */
int sampler_pick(struct sampler *s, const struct sample_params *p, const int32_t *tokens,
                 uint32_t n_tokens, uint32_t n_prompt, struct rng *rng, float *logits,
                 int32_t *ret_token);
/*
 * Computes the log-softmax of @token over a row of @n_row ≥ n_vocab raw logits (if @token is
 * negative, *ret_logprob is NAN), and the @n_top ≤ SAMPLE_MAX_TOP most likely of the first n_vocab
 * tokens, best first. Returns how many tokens are in @ret_top. For a row with NaN, *ret_logprob is
 * NAN and the result is 0.
 */
uint32_t sampler_logprob(struct sampler *s, const float *logits, uint32_t n_row, int32_t token,
                         uint32_t n_top, float *ret_logprob, struct inf_top_logprob *ret_top);

/* Returns how many of the largest logits are needed for the pick with @p and for the @n_top most
 * likely tokens; 0: the whole row is needed. */
uint32_t sampler_list_need(const struct sampler *s, const struct sample_params *p, uint32_t n_top);
/* Returns whether @list, which was requested with the number of sampler_list_need(), suffices. A
 * list with indices behind the vocabulary may not suffice, and an empty list never does. */
bool sampler_list_suffices(const struct sampler *s, const struct top_row *list);
/* Like sampler_pick() and sampler_logprob(), but from a list that suffices. @token must be in the
 * list. */
int32_t sampler_pick_from_list(struct sampler *s, const struct sample_params *p, struct rng *rng,
                               const struct top_row *list);
uint32_t sampler_logprob_from_list(const struct sampler *s, const struct top_row *list,
                                   int32_t token, uint32_t n_top, float *ret_logprob,
                                   struct inf_top_logprob *ret_top);
