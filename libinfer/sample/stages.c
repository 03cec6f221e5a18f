/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies stages to candidates, in any order.
 *
 * The keys of the candidates always are the logits of the row; the temperature only changes the
 * scale with which masses are computed from them. So no stage depends on an order of the list.
 */
#include "sample/stages.h"

#include <assert.h>
#include <math.h>

#include "sample/cands.h"
#include "sample/infill.h"

/* The number of tokens from which Mirostat 1 estimates the exponent of Zipf's law. */
#define MIROSTAT_TOKENS 100u

static const uint8_t usual_order[] = {
    INF_STAGE_TEMPERATURE, INF_STAGE_TOP_N_SIGMA, INF_STAGE_TOP_K, INF_STAGE_TYPICAL_P,
    INF_STAGE_TOP_P,       INF_STAGE_MIN_P,       INF_STAGE_XTC,
};

/* Computes the masses of the candidates and returns their sum. The most likely candidate has mass
 * 1, even if a stage left out more likely ones, so the sum is never 0. */
static double stages_weigh(struct stages *c)
{
    c->max = -INFINITY;
    for (uint32_t i = 0; i < c->n; i++)
        c->max = MAX(c->max, c->cands[i].key);
    cands_weigh(c->kernels, c->cands, c->n, c->max, c->scale);
    return cands_total(c->cands, c->n);
}

static uint32_t stages_least(const struct stages *c)
{
    return MIN(MAX(c->p->min_keep, 1u), c->n);
}

/* Keeps the @n most likely candidates. */
static void stages_keep(struct stages *c, uint32_t n)
{
    if (n >= c->n)
        return;
    cand_select(c->cands, c->n, n);
    c->n = n;
}

/* Returns the temperature for the entropy of the candidates. */
static float dynamic_temperature(struct stages *c)
{
    const struct sample_params *p = c->p;
    const float least = MAX(p->temperature - p->dynatemp_range, 0.0f);
    const float most = p->temperature + p->dynatemp_range;
    const double total = stages_weigh(c);
    double entropy = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        const double share = (double)c->cands[i].mass / total;

        if (share > 0)
            entropy -= share * log(share);
    }
    return least + (most - least) * powf((float)(entropy / log(c->n)), p->dynatemp_exponent);
}

static void stages_temperature(struct stages *c)
{
    float temperature = c->p->temperature;

    if (c->p->dynatemp_range > 0) {
        if (c->n < 2)
            return;
        temperature = dynamic_temperature(c);
    }
    if (temperature <= 0)
        stages_keep(c, 1);
    else
        c->scale = MIN(1 / temperature, 1e30f);
}

/* The distance to the largest logit and the deviation have the same scale, so it does not matter
 * whether this stage comes before or after the temperature. */
static void stages_top_n_sigma(struct stages *c)
{
    double sum = 0, squares = 0, mean;
    float least, best = -INFINITY;
    uint32_t n = 0;

    if (c->p->top_n_sigma <= 0 || c->n < 2)
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        sum += (double)c->cands[i].key;
        best = MAX(best, c->cands[i].key);
    }
    mean = sum / c->n;
    for (uint32_t i = 0; i < c->n; i++) {
        const double d = (double)c->cands[i].key - mean;

        squares += d * d;
    }
    least = (float)((double)best - (double)c->p->top_n_sigma * sqrt(squares / c->n));
    for (uint32_t i = 0; i < c->n; i++)
        if (c->cands[i].key >= least)
            c->cands[n++] = c->cands[i];
    c->n = n;
}

static void stages_top_k(struct stages *c)
{
    if (c->p->top_k > 0)
        stages_keep(c, c->p->top_k);
}

static void stages_typical(struct stages *c)
{
    const uint32_t n = c->n;

    if (c->p->typical_p >= 1)
        return;
    stages_weigh(c);
    c->n = cands_cut_typical(c->cands, n, c->max, c->scale, c->p->typical_p, stages_least(c));
    for (uint32_t i = 0; i < c->n; i++)
        c->cands[i].key = c->logits[c->cands[i].id];
}

static void stages_top_p(struct stages *c)
{
    uint32_t n;

    if (c->p->top_p >= 1)
        return;
    n = cand_prefix(c->cands, c->n, (double)c->p->top_p * stages_weigh(c));
    stages_keep(c, MAX(n, stages_least(c)));
}

static void stages_min_p(struct stages *c)
{
    float max = 0;
    uint32_t n = 0;

    if (c->p->min_p <= 0)
        return;
    stages_weigh(c);
    for (uint32_t i = 0; i < c->n; i++)
        max = MAX(max, c->cands[i].mass);
    for (uint32_t i = 0; i < c->n; i++)
        n += c->cands[i].mass >= c->p->min_p * max;
    stages_keep(c, MAX(n, stages_least(c)));
}

/* XTC means "exclude top choices": the stage leaves out the tokens whose probability is at least
 * the threshold, but keeps the least likely of these tokens. */
static void stages_xtc(struct stages *c, struct rng *rng)
{
    const struct sample_params *p = c->p;
    struct cand *a = c->cands, last = {.key = INFINITY};
    uint32_t n_above = 0, n = 0;
    double least;

    if (p->xtc_probability <= 0 || p->xtc_threshold > 0.5f || c->n < 2 ||
        rng_double(rng) > (double)p->xtc_probability)
        return;
    least = (double)p->xtc_threshold * stages_weigh(c);
    for (uint32_t i = 0; i < c->n; i++) {
        if ((double)a[i].mass < least)
            continue;
        if (n_above++ == 0 || cand_before(&last, &a[i]))
            last = a[i];
    }
    if (n_above < 2 || c->n - (n_above - 1) < p->min_keep)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        if (!cand_before(&a[i], &last))
            a[n++] = a[i];
    c->n = n;
}

static void stages_infill(struct stages *c)
{
    double total;

    if (!c->p->vocab.text)
        return;
    stages_keep(c, INFILL_MAX_CANDS);
    total = stages_weigh(c);
    c->n = infill_cut(&c->p->vocab, c->logits, c->cands, c->n, total);
}

static void stages_apply(struct stages *c, enum inf_stage stage, struct rng *rng)
{
    switch (stage) {
    case INF_STAGE_TEMPERATURE:
        stages_temperature(c);
        break;
    case INF_STAGE_TOP_N_SIGMA:
        stages_top_n_sigma(c);
        break;
    case INF_STAGE_TOP_K:
        stages_top_k(c);
        break;
    case INF_STAGE_TYPICAL_P:
        stages_typical(c);
        break;
    case INF_STAGE_TOP_P:
        stages_top_p(c);
        break;
    case INF_STAGE_MIN_P:
        stages_min_p(c);
        break;
    case INF_STAGE_XTC:
        stages_xtc(c, rng);
        break;
    case INF_STAGE_INFILL:
        stages_infill(c);
        break;
    case INF_N_STAGES:
        break;
    }
}

/* Mirostat 1 (Basu et al. 2021): keeps the number of tokens with which the expected surprise is mu
 * if the probabilities follow Zipf's law. The exponent of the law is estimated from the most likely
 * tokens. */
static void mirostat_cut_zipf(struct stages *c, float mu)
{
    const uint32_t m = MIN(MIROSTAT_TOKENS, c->n);
    double sum_tb = 0, sum_tt = 0, s, epsilon, k;

    cand_select(c->cands, c->n, m);
    cand_sort(c->cands, m);
    for (uint32_t i = 0; i + 1 < m; i++) {
        const double t = log((i + 2.0) / (i + 1.0));
        const double b = (double)(c->cands[i].key - c->cands[i + 1].key) * (double)c->scale;

        sum_tb += t * b;
        sum_tt += t * t;
    }
    s = m > 1 ? sum_tb / sum_tt : 1;
    epsilon = s - 1;
    k = pow(epsilon * exp2((double)mu) / (1 - pow(c->n_vocab, -epsilon)), 1 / s);
    /* k is NaN if the exponent is exactly 1, for example if there is only one candidate. */
    stages_keep(c, k >= 1 ? (uint32_t)MIN(k, (double)c->n) : 1);
}

/* Mirostat 2: keeps the tokens whose surprise is at most mu. */
static void mirostat_cut_surprise(struct stages *c, float mu)
{
    const double least = stages_weigh(c) * exp2(-(double)mu);
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += (double)c->cands[i].mass >= least;
    stages_keep(c, MAX(n, 1u));
}

static uint32_t mirostat_pick(struct stages *c, struct sample_state *state)
{
    uint32_t i;

    stages_temperature(c);
    if (c->p->mirostat == 1)
        mirostat_cut_zipf(c, state->mu);
    else
        mirostat_cut_surprise(c, state->mu);
    c->total = stages_weigh(c);
    i = cands_draw(c->cands, c->n, &state->rng);
    state->mu -= c->p->mirostat_eta *
                 (float)(-log2((double)c->cands[i].mass / c->total) - (double)c->p->mirostat_tau);
    return i;
}

uint32_t stages_pick(struct stages *c, struct sample_state *state)
{
    const struct sample_params *p = c->p;
    const uint8_t *order = p->order ? p->order : usual_order;
    const uint32_t n_order = p->order ? p->n_order : (uint32_t)ARRAY_SIZE(usual_order);

    assert(c->n > 0);
    if (p->mirostat > 0)
        return mirostat_pick(c, state);
    for (uint32_t i = 0; i < n_order; i++)
        stages_apply(c, order[i], &state->rng);
    c->total = stages_weigh(c);
    return cands_draw(c->cands, c->n, &state->rng);
}
