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
/* The time of steps without drafts is measured again after REFRESH steps; every measurement is
 * forgotten after FORGET steps. */
#define REFRESH 256u
#define FORGET  2048u

static bool is_known(const struct draft_cost *cost, const struct draft_time *t)
{
    return t->usec > 0 && cost->n_steps - t->at <= FORGET;
}

void draft_cost_note(struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra, uint64_t usec)
{
    const double sample = (double)MAX(usec, 1);
    struct draft_time *t;

    cost->n_steps++;
    if (n_seqs == 0 || n_seqs > DRAFT_MAX_SEQS || n_extra > DRAFT_MAX_EXTRA)
        return;
    t = &cost->times[n_seqs][n_extra];
    if (!is_known(cost, t))
        *t = (struct draft_time){0};
    /* Other load makes steps longer, never shorter, so a shorter time counts more. */
    if (t->n == 0)
        t->usec = sample;
    else if (sample < t->usec)
        t->usec += (sample - t->usec) / 2;
    else
        t->usec += (MIN(sample, 2 * t->usec) - t->usec) / 8;
    t->n = MIN(t->n + 1, DRAFT_MEASURE);
    t->at = cost->n_steps;
}

double draft_cost_time(const struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra)
{
    const struct draft_time *times = cost->times[n_seqs];
    uint32_t low = MIN(n_extra, DRAFT_MAX_EXTRA), high = low;

    assert(n_seqs > 0 && n_seqs <= DRAFT_MAX_SEQS);
    if (!is_known(cost, &times[0]))
        return 0;
    while (!is_known(cost, &times[low]))
        low--;
    while (high <= DRAFT_MAX_EXTRA && !is_known(cost, &times[high]))
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

    return !is_known(cost, t) || t->n < DRAFT_MEASURE || cost->n_steps - t->at > REFRESH;
}

uint32_t draft_cost_choose(const struct draft_cost *cost, const struct draft_offer *offers,
                           uint32_t n, uint32_t max_extra, uint32_t *ret_n)
{
    double tokens = n, best_speed, plain;
    uint32_t best = 0;

    if (!cost)
        return take_tokens(offers, n, max_extra, ret_n);
    take_tokens(offers, n, 0, ret_n);
    if (n == 0 || n > DRAFT_MAX_SEQS || needs_plain_step(cost, n))
        return 0;
    plain = n / draft_cost_time(cost, n, 0);
    best_speed = plain * MIN_GAIN;
    for (uint32_t e = 1; e <= MIN(max_extra, DRAFT_MAX_EXTRA); e++) {
        const uint32_t i = best_offer(offers, ret_n, n);
        double speed;

        if (i == n)
            break;
        tokens += (double)offers[i].chances[ret_n[i]++];
        speed = tokens / draft_cost_time(cost, n, e);
        if (speed > best_speed) {
            best_speed = speed;
            best = e;
        }
    }
    return take_tokens(offers, n, best, ret_n);
}
