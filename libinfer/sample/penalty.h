/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stages that change few logits: forbidden tokens, bias, repetition, presence and frequency
 * penalty, and DRY
 *
 * Because they change few logits, the row is modified in place and restored after the pick.
 */

#include "sample/sampler.h"

struct penalty_edit {
    int32_t id;
    float logit; /* the original value */
};

static inline bool penalty_any(const struct sample_params *p)
{
    return p->n_bias > 0 || p->repetition != 1 || p->presence != 0 || p->frequency != 0 ||
           dry_is_on(&p->dry);
}

/* Changes logits by the list of forbidden tokens, bias and penalties. @counts: [n_vocab], all zero
 * before and after the call. @repeats: see struct sample_state. Fills @ret_edits [n_vocab] with one
 * edit for each changed logit, and returns the number of edits. */
uint32_t penalty_apply(const struct sample_params *p, const struct sample_text *text,
                       uint32_t *repeats, uint32_t *counts, float *logits, uint32_t n_vocab,
                       struct penalty_edit *ret_edits);
void penalty_undo(const struct penalty_edit *edits, uint32_t n, float *logits);
