/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the draft model (drafter.h) drafts, and for which sequences.
 *
 * A draft costs time before it is known, so the decision uses only the rates of earlier drafts and
 * the measured times of steps (draft/cost.h). A sequence whose state is far behind its text cannot
 * draft at once. Its state catches up, in steps that are short beside those of the large model, if
 * the text is likely to gain more time than this takes.
 *
 * While no draft pays, the model drafts now and then to find out whether this has changed: a
 * *probe* is a draft of a few tokens that no step verifies. It is compared with the tokens that
 * come. Probes take at most PROBE_SHARE of the time.
 */
#include <string.h>

#include "core/clock.h"
#include "sched/assistant.h"
#include "sched/sched.h"

#define READY_ROWS   32u   /* tokens of the text that a draft may compute first */
#define CATCH_USEC   50000 /* catching up may always take this long in one step */
#define CATCH_ROWS   64u   /* rows of the first such step, before its time is known */
#define CATCH_MIN    16u   /* fewest rows of such a step */
#define CATCH_TOKENS 512u  /* limit of the further tokens that a text is expected to get */
#define PROBE_SHARE  0.01
#define PROBE_TOKENS 2u
#define PROBE_CREDIT 1e6 /* limit of the time that is saved for probes, in microseconds */

/* Returns the largest number of rows that the draft model may have to compute before a draft. */
static uint32_t seq_lag(const struct seq *seq)
{
    return seq->n_tokens - seq->draft.model.n_kv;
}

static double sum_chances(const struct draft_offer *offer)
{
    double sum = 0;

    for (uint32_t i = 0; i < offer->n; i++)
        sum += (double)offer->chances[i];
    return sum;
}

static uint8_t model_class(const struct seq *seq)
{
    return seq->req->sampling.temperature > 0 ? DRAFT_RANDOM : DRAFT_MODEL;
}

/* Chooses for each sequence the better one of two offers: that of the draft that was looked up, and
 * that of the model. Returns whether an offer of the model was chosen. */
static bool mix_offers(struct sched *s)
{
    struct speculation *x = s->speculation;
    const struct step *step = &s->step;
    bool any = false;

    for (uint32_t i = 0; i < step->n_ready; i++) {
        struct seq *seq = step->ready[i];
        const uint32_t n = drafter_has_state(x->drafter, seq)
                               ? MIN(sched_draft_limit(s, seq), drafter_max_tokens(x->drafter))
                               : 0;
        struct draft_offer offer;
        uint8_t classes[DRAFT_MAX];

        x->mixed[i] = x->offers[i];
        if (n == 0 || channel_forced(&seq->req->channel, &seq->channel) >= 0)
            continue;
        memset(classes, model_class(seq), n);
        sched_make_offer(s, seq, classes, n, &offer);
        if (sum_chances(&offer) <= sum_chances(&x->offers[i]))
            continue;
        x->mixed[i] = offer;
        any = true;
    }
    return any;
}

/* Returns whether a text is likely to gain more time by drafts than the draft model needs to
 * compute @lag tokens of it. */
static bool is_worth(const struct sched *s, const struct seq *seq, uint32_t lag, double gain)
{
    const struct speculation *x = s->speculation;
    const uint32_t n_ready = s->step.n_ready;
    const uint32_t n_left = MIN(seq->req->max_total - seq->n_tokens, CATCH_TOKENS);
    double saved;

    if (x->ignores_cost || x->drafter->row_usec == 0)
        return true;
    saved = draft_cost_time(&x->cost, n_ready, 0) / n_ready * (1 - 1 / gain);
    return saved * n_left > x->drafter->row_usec * lag;
}

/* Lets the state of @n sequences catch up. */
static void catch_up(struct sched *s, uint32_t n)
{
    struct speculation *x = s->speculation;
    const double row_usec = x->drafter->row_usec;
    double usec = CATCH_USEC;
    uint32_t n_rows = CATCH_ROWS;

    if (row_usec > 0 && !x->ignores_cost) {
        usec = MAX(draft_cost_time(&x->cost, s->step.n_ready, 0), usec);
        n_rows = (uint32_t)MAX(usec / row_usec, (double)CATCH_MIN);
    }
    drafter_catch_up(x->drafter, x->behind, n, n_rows);
}

/* Takes back the offers of sequences whose state is not ready. Returns whether there were any, so
 * that the drafts must be chosen again. The offers that were not chosen are taken back as well: the
 * second choice must not take them, because drafter_follow() was not called for them. */
static bool drop_unready(struct sched *s, double gain)
{
    struct speculation *x = s->speculation;
    const struct step *step = &s->step;
    uint32_t n_behind = 0;
    bool any = false;

    for (uint32_t i = 0; i < step->n_ready; i++) {
        if (!x->mixed[i].by_model)
            continue;
        if (x->n_mixed[i] > 0) {
            const uint32_t lag = drafter_follow(x->drafter, step->ready[i]);

            if (lag <= READY_ROWS)
                continue;
            if (lag < UINT32_MAX && is_worth(s, step->ready[i], lag, gain))
                x->behind[n_behind++] = step->ready[i];
            any = true;
        }
        x->mixed[i] = x->offers[i];
    }
    if (n_behind > 0)
        catch_up(s, n_behind);
    return any;
}

/* Takes what the draft model drafted for a sequence. */
static void take_draft(struct sched *s, const struct draft_job *job, struct draft *ret_draft)
{
    struct seq *seq = job->seq;

    *ret_draft = (struct draft){.n = job->n};
    for (uint32_t k = 0; k < job->n; k++) {
        ret_draft->tokens[k] = seq->tokens[seq->n_tokens + k];
        ret_draft->classes[k] = model_class(seq);
    }
    sched_fit_draft(s, seq, job->n, ret_draft);
}

/* Lets the draft model run the first @n jobs. Returns false if it failed. */
static bool run_jobs(struct sched *s, uint32_t n)
{
    struct speculation *x = s->speculation;
    uint64_t usec[DRAFT_MAX];
    uint32_t n_seqs[DRAFT_MAX];

    if (drafter_draft(x->drafter, n, usec, n_seqs) < 0)
        return false;
    for (uint32_t k = 0; k < DRAFT_MAX && n_seqs[k] > 0; k++)
        draft_cost_note_model(&x->cost, n_seqs[k], usec[k]);
    return true;
}

static void draft_mixed(struct sched *s)
{
    struct speculation *x = s->speculation;
    const struct step *step = &s->step;
    struct draft_job *jobs = x->drafter->jobs;
    uint32_t n = 0;
    bool ok;

    for (uint32_t i = 0; i < step->n_ready; i++)
        if (x->mixed[i].by_model && x->n_mixed[i] > 0) {
            jobs[n].seq = step->ready[i];
            jobs[n++].n_wanted = x->n_mixed[i];
        }
    ok = n == 0 || run_jobs(s, n);
    n = 0;
    for (uint32_t i = 0; i < step->n_ready; i++) {
        x->n_taken[i] = x->n_mixed[i];
        if (!x->mixed[i].by_model || x->n_mixed[i] == 0)
            continue;
        if (ok)
            take_draft(s, &jobs[n++], &x->drafts[i]);
        x->n_taken[i] = ok ? MIN(x->n_taken[i], x->drafts[i].n) : 0;
    }
}

/* Returns the sequence of the next probe, or NULL. */
static struct seq *next_probe(struct speculation *x, const struct step *step)
{
    for (uint32_t k = 0; k < step->n_ready; k++) {
        struct seq *seq = step->ready[x->i_probe++ % step->n_ready];

        if (seq->draft.wanted && seq->draft.pending.n == 0)
            return seq;
    }
    return NULL;
}

/* Drafts a few tokens to compare them with those that come, if enough time was saved for this
 * (credit_usec). */
static void probe(struct sched *s)
{
    struct speculation *x = s->speculation;
    struct drafter *d = x->drafter;
    struct seq *seq = x->credit_usec > 0 ? next_probe(x, &s->step) : NULL;
    const uint32_t n = MIN(PROBE_TOKENS, drafter_max_tokens(d));
    uint32_t lag;

    if (!seq || sched_draft_limit(s, seq) < n ||
        x->credit_usec <
            d->row_usec * MIN(seq_lag(seq), CATCH_ROWS) + draft_cost_alone_time(&x->cost, n))
        return;
    lag = drafter_follow(d, seq);
    if (lag == UINT32_MAX)
        return;
    if (lag > READY_ROWS) {
        x->behind[0] = seq;
        drafter_catch_up(d, x->behind, 1, CATCH_ROWS);
        x->i_probe--; /* the next probe goes on with this sequence */
        return;
    }
    d->jobs[0].seq = seq;
    d->jobs[0].n_wanted = n;
    if (!run_jobs(s, 1))
        return;
    take_draft(s, &d->jobs[0], &seq->draft.pending);
    seq->draft.n_compared = 0;
}

void sched_draft_by_model(struct sched *s, uint32_t max_extra, double gain)
{
    struct speculation *x = s->speculation;
    const struct draft_cost *cost = x->ignores_cost ? NULL : &x->cost;
    const uint32_t n = s->step.n_ready;
    const uint64_t begin = clock_usec();
    uint64_t usec;
    double mixed_gain;
    bool drafts = mix_offers(s);

    if (drafts) {
        drafts = draft_cost_choose(cost, x->mixed, n, max_extra, x->n_mixed, &mixed_gain) > 0 &&
                 mixed_gain >= gain;
        if (drafts && drop_unready(s, mixed_gain))
            draft_cost_choose(cost, x->mixed, n, max_extra, x->n_mixed, NULL);
        if (drafts)
            draft_mixed(s);
    }
    if (!drafts && !x->ignores_cost)
        probe(s);
    usec = clock_usec() - begin;
    s->step.draft_usec = usec;
    if (!drafts)
        x->credit_usec -= (double)usec;
}

/* Returns the row of logits from which the last token of a part was chosen. */
static size_t pick_row(const struct step_part *part)
{
    return (size_t)part->i_logit + part->n_prompt_logits + part->n_picked - 1;
}

void sched_take_hidden(struct sched *s)
{
    struct step *step = &s->step;
    struct drafter *d = s->speculation ? s->speculation->drafter : NULL;
    const struct runner *runner = s->runner;
    const uint64_t begin = clock_usec();

    if (!d || !d->input)
        return;
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const struct step_part *part = &step->parts[i];

        if (d->assists) {
            if (part->n_picked > 0)
                assistant_take(d, part->seq, runner->hidden + pick_row(part) * runner->n_hidden);
            continue;
        }
        /* After an error the drafter begins this state anew. If the device is lost, the next step
         * of the model reports it. */
        (void)drafter_take_hidden(d, part->seq, part->pos, sched_n_right_rows(part),
                                  runner->hidden + (size_t)step->seqs[i].i_row * runner->n_hidden);
    }
    step->draft_usec += clock_usec() - begin;
}

void sched_earn_probes(struct sched *s)
{
    struct speculation *x = s->speculation;

    x->credit_usec = MIN(x->credit_usec + (double)(s->step.usec - s->step.draft_usec) * PROBE_SHARE,
                         PROBE_CREDIT);
}
