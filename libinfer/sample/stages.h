/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Applies the stages of sampling one after the other to a list of candidates. sampler.h describes
 * the stages. The list is needed for stages and orders that the faster methods of sampler.c do not
 * support. */

#include "sample/row.h"
#include "sample/sampler.h"
#include "sample/select.h"

/* The order in which candidates are drawn. */
enum stages_order {
    ORDER_TOKEN, /* by token id; the list is in this order */
    /* With the next two orders the list itself is in any order, because sorting a long list takes
     * too long. */
    ORDER_LOGIT,   /* by decreasing logit */
    ORDER_TYPICAL, /* the most typical token comes first (cands_key_typical()) */
};

struct stages {
    const struct row_kernels *kernels;
    const struct sample_params *p;
    const float *logits; /* the row; NULL: `list` has the logits of all candidates */
    const struct top_row *list;
    uint32_t n_vocab;
    struct cand *cands; /* their keys are logits */
    uint32_t n;
    enum stages_order order;
    bool has_zeros; /* llama.cpp's list would also contain tokens of probability 0; so a random
                       number is used even if only one candidate remains */
    float typical_max, typical_scale, typical_mean; /* ORDER_TYPICAL: for cands_key_typical() */
    float max;    /* the largest logit of the candidates, set when masses are computed */
    float scale;  /* 1 / temperature; 1 before the stage of the temperature */
    double total; /* sum of the masses of the candidates that remain, set by stages_pick() */
};

static inline bool stages_are_needed(const struct sample_params *p)
{
    return p->order || p->dynatemp_range > 0 || p->top_n_sigma > 0 || p->xtc_probability > 0 ||
           p->mirostat > 0 || p->min_keep > 1 || p->post_logprobs;
}

/* Returns true if the top_k most likely tokens are enough for all stages: each stage before top-k
 * gives the same result with these tokens as with all tokens. */
bool stages_begin_with_top_k(const struct sample_params *p);
/* Draws one of the candidates, whose masses must be set and have the sum @total. Returns its index.
 */
uint32_t stages_draw(struct stages *c, struct twister *random);
/* Applies the stages to the candidates and draws one of those that remain. Returns its index. The
 * members n and total and the masses of the candidates are then those of the last stage. */
uint32_t stages_pick(struct stages *c, struct sample_state *state);
