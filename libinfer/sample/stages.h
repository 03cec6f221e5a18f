/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Applies the stages of sampling one after the other to a list of candidates. sampler.h describes
 * the stages. The list is needed for stages and orders that the faster methods of sampler.c do not
 * support. */

#include "sample/row.h"
#include "sample/sampler.h"
#include "sample/select.h"

struct stages {
    const struct row_kernels *kernels;
    const struct sample_params *p;
    const float *logits; /* the row */
    uint32_t n_vocab;
    struct cand *cands; /* their keys are logits */
    uint32_t n;
    float max;    /* the largest logit of the candidates, set when masses are computed */
    float scale;  /* 1 / temperature; 1 before the stage of the temperature */
    double total; /* of the masses of the candidates that remain, set by stages_pick() */
};

static inline bool stages_are_needed(const struct sample_params *p)
{
    return p->order || p->dynatemp_range > 0 || p->top_n_sigma > 0 || p->xtc_probability > 0 ||
           p->mirostat > 0 || p->min_keep > 1 || p->post_logprobs;
}

/* Applies the stages to the candidates and draws one of those that remain. Returns its index. The
 * members n and total and the masses of the candidates are then those of the last stage. */
uint32_t stages_pick(struct stages *c, struct sample_state *state);
