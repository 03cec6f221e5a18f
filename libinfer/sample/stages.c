/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies stages to candidates, in any order.
 *
 * The keys of the candidates are always the logits of the row; the temperature only changes the
 * scale with which masses are computed from them. So no stage depends on the order of the list. The
 * order that the list would have in llama.cpp is only remembered, for the draw.
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
    c->order = ORDER_LOGIT;
    if (n >= c->n)
        return;
    cand_select(c->cands, c->n, n);
    c->n = n;
}

/* Keeps the candidates whose logit is at least @key, and does not change their order. */
static void stages_keep_from(struct stages *c, float key)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        if (c->cands[i].key >= key)
            c->cands[n++] = c->cands[i];
    c->has_zeros |= n < c->n;
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
        c->order = ORDER_LOGIT;
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
    float best = -INFINITY;

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
    stages_keep_from(c, (float)((double)best - (double)c->p->top_n_sigma * sqrt(squares / c->n)));
}

static void stages_top_k(struct stages *c)
{
    if (c->p->top_k == 0)
        return;
    c->has_zeros &= c->n < c->p->top_k;
    stages_keep(c, c->p->top_k);
}

static float stages_logit(const struct stages *c, int32_t id)
{
    uint32_t i = 0;

    if (c->logits)
        return c->logits[id];
    while (c->list->ids[i] != id)
        i++;
    return c->list->values[i];
}

/* Makes the logits the keys again. */
static void stages_restore(struct stages *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        c->cands[i].key = stages_logit(c, c->cands[i].id);
}

static void stages_typical(struct stages *c)
{
    const uint32_t n = c->n;

    if (c->p->typical_p >= 1)
        return;
    stages_weigh(c);
    c->typical_max = c->max;
    c->typical_scale = c->scale;
    c->n = cands_cut_typical(c->cands, n, c->max, c->scale, c->p->typical_p, stages_least(c),
                             &c->typical_mean);
    c->order = ORDER_TYPICAL;
    c->has_zeros = false;
    stages_restore(c);
}

static void stages_top_p(struct stages *c)
{
    uint32_t n;

    if (c->p->top_p >= 1)
        return;
    n = cand_prefix(c->cands, c->n, (double)c->p->top_p * stages_weigh(c));
    stages_keep(c, MAX(n, stages_least(c)));
    c->has_zeros = false;
}

static void stages_min_p(struct stages *c)
{
    uint32_t n = 0, kept = 0;

    if (c->p->min_p <= 0)
        return;
    stages_weigh(c);
    for (uint32_t i = 0; i < c->n; i++)
        n += c->cands[i].mass >= c->p->min_p;
    c->has_zeros = false;
    if (n < stages_least(c)) {
        stages_keep(c, stages_least(c));
        return;
    }
    for (uint32_t i = 0; i < c->n; i++)
        if (c->cands[i].mass >= c->p->min_p)
            c->cands[kept++] = c->cands[i];
    c->n = kept;
}

/* XTC means "exclude top choices": the stage leaves out the tokens whose probability is at least
 * the threshold, but keeps the least likely of these tokens. */
static void stages_xtc(struct stages *c, struct twister *random)
{
    const struct sample_params *p = c->p;
    struct cand *a = c->cands, last = {.key = INFINITY};
    uint32_t n_above = 0, n = 0;
    double least;

    if (p->xtc_probability <= 0 || p->xtc_threshold > 0.5f || c->n < 2 ||
        twister_float(random) > p->xtc_probability)
        return;
    c->order = ORDER_LOGIT;
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
    c->has_zeros = false;
    total = stages_weigh(c);
    c->n = infill_cut(&c->p->vocab, c->logits, c->cands, c->n, total);
}

static void stages_apply(struct stages *c, enum inf_stage stage, struct twister *xtc)
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
        stages_xtc(c, xtc);
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

static const uint8_t *order_of(const struct sample_params *p, uint32_t *ret_n)
{
    *ret_n = p->order ? p->n_order : (uint32_t)ARRAY_SIZE(usual_order);
    return p->order ? p->order : usual_order;
}

/* Returns whether a stage depends on all candidates and not just on the most likely ones. */
static bool stage_needs_all(const struct sample_params *p, enum inf_stage stage)
{
    switch (stage) {
    case INF_STAGE_TEMPERATURE:
        return p->dynatemp_range > 0;
    case INF_STAGE_TOP_N_SIGMA:
        return p->top_n_sigma > 0;
    case INF_STAGE_TYPICAL_P:
        return p->typical_p < 1;
    case INF_STAGE_TOP_P:
        return p->top_p < 1;
    case INF_STAGE_MIN_P:
        return p->min_p > 0;
    case INF_STAGE_XTC:
        return p->xtc_probability > 0;
    case INF_STAGE_INFILL:
        return p->vocab.text;
    case INF_STAGE_TOP_K:
    case INF_N_STAGES:
        break;
    }
    return false;
}

bool stages_begin_with_top_k(const struct sample_params *p)
{
    uint32_t n, i = 0;
    const uint8_t *order = order_of(p, &n);

    if (p->top_k == 0 || p->mirostat > 0)
        return false;
    while (i < n && order[i] != INF_STAGE_TOP_K && !stage_needs_all(p, order[i]))
        i++;
    return i < n && order[i] == INF_STAGE_TOP_K;
}

uint32_t stages_draw(struct stages *c, struct twister *random)
{
    double point;
    uint32_t i;

    if (c->n == 1 && !c->has_zeros)
        return 0;
    point = twister_double(random) * c->total;
    if (c->order == ORDER_TOKEN)
        return cands_find(c->cands, c->n, point);
    for (i = 0; c->order == ORDER_TYPICAL && i < c->n; i++)
        c->cands[i].key =
            cands_key_typical(c->cands[i].key, c->typical_max, c->typical_scale, c->typical_mean);
    i = cand_prefix(c->cands, c->n, point) - 1;
    if (c->order == ORDER_TYPICAL)
        stages_restore(c);
    return i;
}

static uint32_t mirostat_pick(struct stages *c, struct sample_state *state)
{
    uint32_t i;

    stages_temperature(c);
    c->has_zeros = false;
    if (c->p->mirostat == 1)
        mirostat_cut_zipf(c, state->mu);
    else
        mirostat_cut_surprise(c, state->mu);
    c->total = stages_weigh(c);
    i = stages_draw(c, state->draw);
    state->mu -= c->p->mirostat_eta *
                 (float)(-log2((double)c->cands[i].mass / c->total) - (double)c->p->mirostat_tau);
    return i;
}

uint32_t stages_pick(struct stages *c, struct sample_state *state)
{
    const struct sample_params *p = c->p;
    uint32_t n_order;
    const uint8_t *order = order_of(p, &n_order);

    assert(c->n > 0);
    if (p->mirostat > 0)
        return mirostat_pick(c, state);
    for (uint32_t i = 0; i < n_order; i++)
        stages_apply(c, order[i], state->xtc);
    c->total = stages_weigh(c);
    return stages_draw(c, state->draw);
}
