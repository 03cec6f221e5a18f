/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares the predictions of two models, token by token (struct inf_divergence in infer/bench.h).
 *
 * The estimates and their errors are those of llama-perplexity --kl-divergence (llama.cpp). That
 * program stores the base model's logarithms of probabilities as 16-bit integers, and counts
 * probabilities below e^-16 as 0; here all of them are exact.
 */

#include <infer/bench.h>

#include "core/macros.h"

/* Sums over the positions that were compared. P and B are the probabilities that the model and the
 * base model give to the next token of the text. */
struct divergence {
    float *kld, *p_diff; /* [max]: the divergence, and P - B */
    uint64_t n, max;     /* positions */
    uint64_t n_same_top;
    double nll, nll2, base, base2, both; /* of a = -ln P, a², b = -ln B, b² and a × b */
    double sum_kld, kld2, diff, diff2, diff4;
};

/* Allocates memory for @max positions. Returns 0 or -ENOMEM. */
int divergence_init(struct divergence *d, uint64_t max);
void divergence_done(struct divergence *d);
/* Returns -ln(softmax(logits)[token]). */
double divergence_nll(const float *logits, uint32_t n_vocab, int32_t token);
/* Compares the logits of one position, [n_vocab] each. @token is the next token of the text. At
 * most `max` positions may be added. Returns divergence_nll() of @logits. */
double divergence_add(struct divergence *d, const float *base, const float *logits,
                      uint32_t n_vocab, int32_t token);
/* Computes the estimates from the positions so far; at least one. */
void divergence_estimate(const struct divergence *d, struct inf_divergence *ret);
/* Computes the quantiles. Reorders the positions. */
void divergence_quantiles(struct divergence *d, struct inf_divergence *ret);
