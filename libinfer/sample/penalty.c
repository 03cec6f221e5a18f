/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies logit bias, penalties and lists of forbidden tokens
 *
 * Token counts are computed again for each pick. So a sequence keeps no counts, and a sequence that
 * is computed again after preemption continues exactly as before.
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

/* Applies the repetition penalty of CTRL (Keskar et al. 2019), but divides only positive logits,
 * and multiplies the others. */
static void apply_repetition(float penalty, const int32_t *tokens, uint32_t n, uint32_t *counts,
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

static void apply_occurrence(const struct sample_params *p, const int32_t *tokens, uint32_t n,
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

/* A list of the tokens whose logits a stage may change, each token once, with its logit. */
struct edits {
    struct penalty_edit *list;
    uint32_t n;
    uint32_t *counts;
    const float *logits;
    uint32_t n_vocab;
};

static void note_edit(struct edits *e, int32_t token)
{
    if ((uint32_t)token < e->n_vocab && e->counts[token]++ == 0)
        e->list[e->n++] = (struct penalty_edit){token, e->logits[token]};
}

/* Lowers the logits of the tokens that would continue a repetition. */
static void apply_dry(const struct dry *d, const struct sample_text *text, uint32_t *repeats,
                      uint32_t *counts, float *logits, uint32_t n_vocab)
{
    const uint32_t n = dry_find(d, text->tokens, text->n_tokens, n_vocab, repeats, counts);

    for (uint32_t i = text->n_tokens - n; i < text->n_tokens; i++) {
        const uint32_t t = (uint32_t)text->tokens[i];

        if (t >= n_vocab || counts[t] == 0)
            continue;
        logits[t] -= dry_penalty(d, (int32_t)t, counts[t]);
        counts[t] = 0;
    }
}

/* Lists all tokens whose logits a stage may change. */
static uint32_t list_edits(const struct sample_params *p, const struct sample_text *text,
                           uint32_t n_last, struct edits *e)
{
    for (size_t i = 0; i < p->n_bias; i++)
        note_edit(e, p->bias[i].token);
    for (uint32_t i = 0; i < text->n_forbidden; i++)
        note_edit(e, text->forbidden[i]);
    for (uint32_t i = text->n_tokens - n_last; i < text->n_tokens; i++)
        note_edit(e, text->tokens[i]);
    for (uint32_t i = 0; i < e->n; i++)
        e->counts[e->list[i].id] = 0;
    return e->n;
}

uint32_t penalty_apply(const struct sample_params *p, const struct sample_text *text,
                       uint32_t *repeats, uint32_t *counts, float *logits, uint32_t n_vocab,
                       struct penalty_edit *ret_edits)
{
    struct edits e = {ret_edits, 0, counts, logits, n_vocab};
    const uint32_t n_tokens = text->n_tokens;
    const uint32_t n_window = p->repetition != 1 ? MIN(p->window, n_tokens) : 0;
    const uint32_t n_counted =
        p->presence != 0 || p->frequency != 0 ? n_tokens - text->n_prompt : 0;
    const uint32_t n_dry = dry_is_on(&p->dry) ? MIN(p->dry.last_n, n_tokens) : 0;

    list_edits(p, text, MAX(MAX(n_window, n_counted), n_dry), &e);
    for (uint32_t i = 0; i < text->n_forbidden; i++)
        if ((uint32_t)text->forbidden[i] < n_vocab)
            logits[text->forbidden[i]] = -INFINITY;
    add_bias(p, logits, n_vocab);
    apply_repetition(p->repetition, text->tokens + n_tokens - n_window, n_window, counts, logits,
                     n_vocab);
    apply_occurrence(p, text->tokens + n_tokens - n_counted, n_counted, counts, logits, n_vocab);
    if (n_dry > 0)
        apply_dry(&p->dry, text, repeats, counts, logits, n_vocab);
    return e.n;
}

void penalty_undo(const struct penalty_edit *edits, uint32_t n, float *logits)
{
    for (uint32_t i = 0; i < n; i++)
        logits[edits[i].id] = edits[i].logit;
}
