/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logit bias and penalties. Counts are taken from the tokens anew for each pick: a sequence needs
 * no state of its own, and one that is recomputed after preemption continues exactly.
 */
#include "sample/penalty.h"

#include <math.h>

static void add_bias(const struct sample_params *p, float *logits, uint32_t n_vocab)
{
    for (size_t i = 0; i < p->n_bias; i++) {
        const struct inf_logit_bias *b = &p->bias[i];

        if ((uint32_t)b->token >= n_vocab)
            continue;
        if (b->bias <= -100)
            logits[b->token] = -INFINITY;
        else
            logits[b->token] += b->bias;
    }
}

/* CTRL (Keskar et al. 2019) with the sign taken into account. */
static void repetition(float penalty, const int32_t *tokens, uint32_t n, uint32_t *counts,
                       float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)tokens[i];

        if (t >= n_vocab || counts[t]++ > 0)
            continue;
        logits[t] = logits[t] > 0 ? logits[t] / penalty : logits[t] * penalty;
    }
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)tokens[i] < n_vocab)
            counts[tokens[i]] = 0;
}

static void occurrence(const struct sample_params *p, const int32_t *tokens, uint32_t n,
                       uint32_t *counts, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)tokens[i] < n_vocab)
            counts[tokens[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)tokens[i];

        if (t >= n_vocab || counts[t] == 0)
            continue;
        logits[t] -= p->presence + p->frequency * (float)counts[t];
        counts[t] = 0;
    }
}

void penalty_apply(const struct sample_params *p, const int32_t *tokens, uint32_t n_tokens,
                   uint32_t n_prompt, uint32_t *counts, float *logits, uint32_t n_vocab)
{
    add_bias(p, logits, n_vocab);
    if (p->repetition != 1) {
        const uint32_t n = MIN(p->window, n_tokens);

        repetition(p->repetition, tokens + n_tokens - n, n, counts, logits, n_vocab);
    }
    if (p->presence != 0 || p->frequency != 0)
        occurrence(p, tokens + n_prompt, n_tokens - n_prompt, counts, logits, n_vocab);
}
