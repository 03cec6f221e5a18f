/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses drafted tokens from the logits of a step of the drafter. */
#include "sched/drafter-impl.h"

#include <stdatomic.h>

#include "sched/request.h"

/* Makes the mask of the next drafted token. Returns NULL if the draft must end. */
static const uint32_t *draft_mask(const struct draft_job *job)
{
    struct seq *seq = job->seq;
    struct mask *mask = &seq->mask;

    if (job->n > 0) {
        struct mask *fork = &seq->draft.masks[job->n - 1];

        if (mask_fork(job->n > 1 ? fork - 1 : mask, seq->tokens[seq->n_tokens + job->n - 1],
                      fork) != 0)
            return NULL;
        mask = fork;
    }
    return mask_make(mask) == 0 ? mask->bits : NULL;
}

/* Puts the logits of a draft head into a row for all tokens. The head may know rows of the large
 * model's embedding for which the tokenizer has no token. */
static float *widen(const struct drafter *d, unsigned i_thread, const float *logits)
{
    float *row = d->wide + (size_t)i_thread * d->n_vocab;

    for (uint32_t i = 0; i < d->runner->n_vocab; i++)
        if ((uint32_t)d->token_of[i] < d->n_vocab)
            row[d->token_of[i]] = logits[i];
    return row;
}

/* Chooses a drafted token as the engine would choose it for the request. If the draft model lacks
 * tokens of the large model, biases, penalties and forbidden tokens, which may name these tokens,
 * are left out. */
bool drafter_pick(const struct drafter *d, struct sampler *sampler, struct draft_job *job,
                  float *logits)
{
    struct seq *seq = job->seq;
    struct sample_params params = seq->req->sampling;
    struct sample_text text = {
        .tokens = seq->tokens, .n_tokens = seq->n_tokens + job->n, .n_prompt = seq->req->n_prompt};

    if (seq->mask.matcher) {
        text.mask = draft_mask(job);
        if (!text.mask)
            return false;
    }
    if (d->is_narrow) {
        params.n_bias = 0;
        params.repetition = 1;
        params.presence = params.frequency = 0;
        params.dry.multiplier = 0;
    } else {
        seq_forbidden(seq, seq_n_generated(seq) + job->n, seq->channel.place, &text);
    }
    return sampler_pick(sampler, &params, &text, &job->sampling, logits,
                        &seq->tokens[seq->n_tokens + job->n]) == 0;
}

static void take_logits(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    struct drafter *d = arg;
    uint32_t i;

    while ((i = atomic_fetch_add_explicit(&d->next_logit, 1, memory_order_relaxed)) < d->n_logits) {
        struct draft_job *job = &d->jobs[d->i_jobs[i]];

        float *logits = runner_logits(d->runner, i);

        if (d->token_of)
            logits = widen(d, i_thread, logits);
        if (drafter_pick(d, d->samplers[i_thread], job, logits))
            job->n++;
        else
            job->n_wanted = job->n;
    }
}

void drafter_take_logits(struct drafter *d)
{
    struct backend *b = d->runner->backend;

    atomic_store_explicit(&d->next_logit, 0, memory_order_relaxed);
    if (d->n_logits > 1)
        b->ops->parallel(b, take_logits, d);
    else
        take_logits(d, 0, 1);
}

/* Copies the state of the sequence's sampling, so that a draft changes nothing in it. */
void drafter_copy_sampling(struct draft_job *job)
{
    const struct sample_state *from = &job->seq->sampling;

    job->sampling = *from;
    if (from->draw) {
        job->draw = *from->draw;
        job->sampling.draw = &job->draw;
    }
    if (from->xtc) {
        job->xtc = *from->xtc;
        job->sampling.xtc = &job->xtc;
    }
}
