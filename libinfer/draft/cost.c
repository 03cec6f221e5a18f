/* SPDX-License-Identifier: Apache-2.0 */
#include "draft/cost.h"

#include <assert.h>

#include "core/macros.h"

/* Drafts are verified only if they promise at least MIN_GAIN times the tokens per second of a step
 * without drafts. */
#define MIN_GAIN 1.03
/* Until steps with drafts are measured, each drafted token is assumed to add this fraction of the
 * time of a step without drafts. */
#define FIRST_SLOPE 0.08
/* Until a step of a draft model is measured, it is assumed to take this part of a step of the
 * model. */
#define FIRST_MODEL 0.1
/* The time of steps without drafts is measured again after at most REFRESH steps, and at first
 * sooner, because a step may have been disturbed. Each of the first FIRST_ONES measurements
 * replaces the recorded time if it is shorter. Measurements are forgotten after FORGET steps. */
#define REFRESH    256u
#define FIRST_ONES 8u
#define FORGET     2048u

static bool is_known(const struct draft_cost *cost, const struct draft_time *t)
{
    return t->usec > 0 && cost->n_steps - t->at <= FORGET;
}

/* Returns whether the time of steps with drafts, or of steps of a draft model, was measured often
 * enough. The first such step takes much longer than later ones, because it touches memory for the
 * first time. If its time counted, drafts would never seem to pay, and would not be measured
 * again. */
static bool is_measured(const struct draft_cost *cost, const struct draft_time *t)
{
    return is_known(cost, t) && t->n >= 2;
}

static void note_time(const struct draft_cost *cost, struct draft_time *t, uint64_t usec)
{
    const double sample = (double)MAX(usec, 1);

    if (!is_known(cost, t))
        *t = (struct draft_time){0};
    /* Other load makes steps longer, never shorter, so a shorter time counts more. */
    if (t->n == 0 || (t->n < FIRST_ONES && sample < t->usec))
        t->usec = sample;
    else if (sample < t->usec)
        t->usec += (sample - t->usec) / 2;
    else
        t->usec += (MIN(sample, 2 * t->usec) - t->usec) / 8;
    t->n = MIN(t->n + 1, FIRST_ONES);
    t->at = cost->n_steps;
}

void draft_cost_note(struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra, uint64_t usec)
{
    cost->n_steps++;
    if (n_seqs > 0 && n_seqs <= DRAFT_MAX_SEQS && n_extra <= DRAFT_MAX_EXTRA)
        note_time(cost, &cost->times[n_seqs][n_extra], usec);
}

void draft_cost_note_model(struct draft_cost *cost, uint32_t n, uint64_t usec)
{
    if (n > 0 && n <= DRAFT_MAX_EXTRA)
        note_time(cost, &cost->models[n], usec);
}

double draft_cost_model_time(const struct draft_cost *cost, uint32_t n)
{
    const struct draft_time *models = cost->models;
    uint32_t low = n, high = n;

    if (n == 0)
        return 0;
    while (low > 0 && !is_measured(cost, &models[low]))
        low--;
    while (high <= DRAFT_MAX_EXTRA && !is_measured(cost, &models[high]))
        high++;
    if (low == 0 && high > DRAFT_MAX_EXTRA)
        return draft_cost_time(cost, cost->at_once ? 1 : n, 0) * FIRST_MODEL;
    if (low == 0)
        return models[high].usec;
    if (low == high || high > DRAFT_MAX_EXTRA)
        return models[low].usec;
    return models[low].usec + (models[high].usec - models[low].usec) * (n - low) / (high - low);
}

double draft_cost_alone_time(const struct draft_cost *cost, uint32_t n)
{
    return cost->at_once ? draft_cost_model_time(cost, n) : draft_cost_model_time(cost, 1) * n;
}

double draft_cost_time(const struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra)
{
    const struct draft_time *times = cost->times[n_seqs];
    uint32_t low = MIN(n_extra, DRAFT_MAX_EXTRA), high = low;

    assert(n_seqs > 0 && n_seqs <= DRAFT_MAX_SEQS);
    if (!is_known(cost, &times[0]))
        return 0;
    while (low > 0 && !is_measured(cost, &times[low]))
        low--;
    while (high > 0 && high <= DRAFT_MAX_EXTRA && !is_measured(cost, &times[high]))
        high++;
    if (high == low)
        return times[low].usec;
    if (high <= DRAFT_MAX_EXTRA)
        return times[low].usec +
               (times[high].usec - times[low].usec) * (n_extra - low) / (high - low);
    return times[low].usec + times[0].usec * FIRST_SLOPE * (n_extra - low);
}

/* Returns the index of the offer whose next token has the best chance, or @n if no token is
 * left. */
static uint32_t best_offer(const struct draft_offer *offers, const uint32_t *taken, uint32_t n)
{
    uint32_t best = n;

    for (uint32_t i = 0; i < n; i++)
        if (taken[i] < offers[i].n &&
            (best == n || offers[i].chances[taken[i]] > offers[best].chances[taken[best]]))
            best = i;
    return best;
}

/* Takes the @n_extra tokens with the best chances. Returns how many tokens were taken. */
static uint32_t take_tokens(const struct draft_offer *offers, uint32_t n, uint32_t n_extra,
                            uint32_t *ret_n)
{
    uint32_t e = 0;

    for (uint32_t i = 0; i < n; i++)
        ret_n[i] = 0;
    for (; e < n_extra; e++) {
        const uint32_t i = best_offer(offers, ret_n, n);

        if (i == n)
            break;
        ret_n[i]++;
    }
    return e;
}

static bool needs_plain_step(const struct draft_cost *cost, uint32_t n)
{
    const struct draft_time *t = &cost->times[n][0];

    return !is_known(cost, t) || t->n < DRAFT_MEASURE ||
           cost->n_steps - t->at > MIN(REFRESH, 4u << t->n);
}

/* Returns the time that the draft model needs when offer @i, which has @n_before tokens so far,
 * gets one token more. @n_at [DRAFT_MAX] counts the drafts that reach each position, or all tokens
 * if they are drafted at once. */
static double add_token(const struct draft_cost *cost, const struct draft_offer *offer,
                        uint32_t n_before, uint32_t *n_at)
{
    uint32_t *n = &n_at[cost->at_once ? 0 : n_before];

    if (!offer->by_model)
        return 0;
    ++*n;
    return draft_cost_model_time(cost, *n) - draft_cost_model_time(cost, *n - 1);
}

/* Adds to the tokens and the time of a choice those of the step after a rejection. */
static void add_replay(const struct draft_cost *cost, const struct draft_offer *offers,
                       const uint32_t *taken, uint32_t n, double *tokens, double *usec)
{
    double rejections = 0, rows = 0, share;

    for (uint32_t i = 0; i < n; i++) {
        double accepted = 0;

        for (uint32_t k = 0; k < taken[i]; k++)
            accepted += (double)offers[i].chances[k];
        if (taken[i] == 0)
            continue;
        rejections += 1 - (double)offers[i].chances[taken[i] - 1];
        rows += 1 + accepted;
    }
    share = rejections / n;
    *tokens += share * n;
    *usec += share * draft_cost_time(cost, n, (uint32_t)MIN(rows + 0.5, (double)DRAFT_MAX_EXTRA));
}

uint32_t draft_cost_choose(const struct draft_cost *cost, const struct draft_offer *offers,
                           uint32_t n, uint32_t max_extra, uint32_t *ret_n, double *ret_gain)
{
    double tokens = n, best_gain = MIN_GAIN, plain, model_usec = 0;
    uint32_t best = 0, n_at[DRAFT_MAX] = {0};

    if (ret_gain)
        *ret_gain = 1;
    if (!cost)
        return take_tokens(offers, n, max_extra, ret_n);
    take_tokens(offers, n, 0, ret_n);
    if (n == 0 || n > DRAFT_MAX_SEQS || needs_plain_step(cost, n))
        return 0;
    plain = n / draft_cost_time(cost, n, 0);
    for (uint32_t e = 1; e <= MIN(max_extra, DRAFT_MAX_EXTRA); e++) {
        const uint32_t i = best_offer(offers, ret_n, n);
        double gain, all_tokens, usec;

        if (i == n)
            break;
        model_usec += add_token(cost, &offers[i], ret_n[i], n_at);
        tokens += (double)offers[i].chances[ret_n[i]++];
        all_tokens = tokens;
        usec = draft_cost_time(cost, n, e) + model_usec;
        if (cost->replays)
            add_replay(cost, offers, ret_n, n, &all_tokens, &usec);
        gain = all_tokens / usec / plain;
        if (gain > best_gain) {
            best_gain = gain;
            best = e;
        }
    }
    if (ret_gain && best > 0)
        *ret_gain = best_gain;
    return take_tokens(offers, n, best, ret_n);
}
