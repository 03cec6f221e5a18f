/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler chain (see sampler.h for its order). Work is proportional to the vocabulary only
 * where a formula asks for the sum over it; sorting touches the few candidates that can survive.
 */
#include "sample/sampler.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sample/penalty.h"
#include "sample/select.h"
#include "sample/softmax.h"

/* Above this many, quickselect beats the heap. */
#define HEAP_MAX 512

struct sampler {
    uint32_t n_vocab;
    float *row; /* a copy that the stages may change */
    struct cand *cands;
    uint32_t *counts; /* zero between picks */
};

int sample_params_init(struct sample_params *p, const struct inf_sampling *in)
{
    struct inf_logit_bias *bias = NULL;

    assert(in->temperature >= 0 && in->repetition_penalty >= 0);
    if (in->n_logit_bias > 0) {
        bias = NEW(struct inf_logit_bias, in->n_logit_bias);
        if (!bias)
            return -ENOMEM;
        memcpy(bias, in->logit_bias, in->n_logit_bias * sizeof(*bias));
    }
    *p = (struct sample_params){
        .temperature = in->temperature,
        .top_p = in->top_p > 0 ? in->top_p : 1,
        .min_p = in->min_p,
        .typical_p = in->typical_p > 0 ? in->typical_p : 1,
        .top_k = in->top_k,
        .repetition = in->repetition_penalty > 0 ? in->repetition_penalty : 1,
        .presence = in->presence_penalty,
        .frequency = in->frequency_penalty,
        .window = in->penalty_last_n > 0 ? in->penalty_last_n : 64,
        .bias = bias,
        .n_bias = in->n_logit_bias,
    };
    return 0;
}

void sample_params_done(struct sample_params *p)
{
    free(p->bias);
    *p = (struct sample_params){0};
}

int sampler_new(uint32_t n_vocab, struct sampler **ret_sampler)
{
    _cleanup_(sampler_freep) struct sampler *s = NEW(struct sampler, 1);

    if (!s)
        return -ENOMEM;
    s->n_vocab = n_vocab;
    s->row = NEW(float, n_vocab);
    s->cands = NEW(struct cand, n_vocab);
    s->counts = NEW(uint32_t, n_vocab);
    if (!s->row || !s->cands || !s->counts)
        return -ENOMEM;
    *ret_sampler = STEAL(s);
    return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
    if (!s)
        return NULL;
    free(s->row);
    free(s->cands);
    free(s->counts);
    free(s);
    return NULL;
}

/* The @top_k first of the row as candidates with masses; the most likely token has mass 1. */
static uint32_t take_top_k(struct sampler *s, const struct sample_params *p, float *row, float max,
                           double *ret_sum)
{
    uint32_t n = p->top_k;

    if (n <= HEAP_MAX) {
        n = row_top(row, s->n_vocab, n, s->cands);
    } else {
        for (uint32_t i = 0; i < s->n_vocab; i++)
            s->cands[i] = (struct cand){row[i], 0, (int32_t)i};
        cand_select(s->cands, s->n_vocab, n);
    }
    for (uint32_t i = 0; i < n; i++)
        row[i] = s->cands[i].key;
    *ret_sum = softmax_masses(row, n, max, p->temperature);
    for (uint32_t i = 0; i < n; i++)
        s->cands[i].mass = row[i];
    return n;
}

/*
 * All tokens as candidates, but for those that top-p or min-p will cut for sure: all tokens of
 * less than (1 - top_p) / n_vocab together weigh less than 1 - top_p, so the shortest prefix
 * that weighs top_p is among the others.
 */
static uint32_t take_likely(struct sampler *s, const struct sample_params *p, float *row, float max,
                            double *ret_sum)
{
    const bool keep_all = p->typical_p < 1;
    const double sum = softmax_masses(row, s->n_vocab, max, p->temperature);
    double least = 0;
    uint32_t n = 0;

    /* Half of it, so that rounding cannot matter. */
    if (!keep_all && p->top_p < 1)
        least = 0.5 * (1 - (double)p->top_p) * sum / s->n_vocab;
    if (!keep_all)
        least = MAX(least, (double)p->min_p);
    for (uint32_t i = 0; i < s->n_vocab; i++)
        if ((double)row[i] >= least && row[i] > 0)
            s->cands[n++] = (struct cand){row[i], row[i], (int32_t)i};
    *ret_sum = sum;
    return n;
}

/* Keeps the tokens whose surprise is nearest to the entropy until they weigh typical_p. */
static uint32_t cut_typical(const struct sample_params *p, struct cand *c, uint32_t n, double *sum)
{
    double entropy = 0, kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        const double q = (double)c[i].mass / *sum;

        if (q > 0)
            entropy -= q * log(q);
    }
    for (uint32_t i = 0; i < n; i++) {
        const double q = (double)c[i].mass / *sum;

        c[i].key = q > 0 ? (float)-fabs(-log(q) - entropy) : -INFINITY;
    }
    n = cand_prefix(c, n, (double)p->typical_p * *sum);
    for (uint32_t i = 0; i < n; i++) {
        c[i].key = c[i].mass;
        kept += (double)c[i].mass;
    }
    *sum = kept;
    return n;
}

static uint32_t cut_min_p(const struct sample_params *p, struct cand *c, uint32_t n)
{
    float max = 0;
    uint32_t n_kept = 0;

    for (uint32_t i = 0; i < n; i++)
        max = MAX(max, c[i].mass);
    for (uint32_t i = 0; i < n; i++)
        if (c[i].mass >= p->min_p * max)
            c[n_kept++] = c[i];
    return n_kept;
}

static int32_t draw(const struct cand *c, uint32_t n, struct rng *rng)
{
    double sum = 0, point;
    int32_t last = c[0].id;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)c[i].mass;
    point = rng_double(rng) * sum;
    sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)c[i].mass;
        if (point < sum)
            return c[i].id;
        if (c[i].mass > 0)
            last = c[i].id;
    }
    /* Only rounding leads here; a forbidden token must not profit by it. */
    return last;
}

static int32_t pick_random(struct sampler *s, const struct sample_params *p, struct rng *rng,
                           float *logits, float max)
{
    struct cand *c = s->cands;
    double sum;
    uint32_t n;

    if (p->top_k > 0 && p->top_k < s->n_vocab)
        n = take_top_k(s, p, logits, max, &sum);
    else
        n = take_likely(s, p, logits, max, &sum);
    if (p->typical_p < 1)
        n = cut_typical(p, c, n, &sum);
    if (p->top_p < 1)
        n = cand_prefix(c, n, (double)p->top_p * sum);
    if (p->min_p > 0)
        n = cut_min_p(p, c, n);
    assert(n > 0);
    return draw(c, n, rng);
}

static bool has_penalties(const struct sample_params *p)
{
    return p->n_bias > 0 || p->repetition != 1 || p->presence != 0 || p->frequency != 0;
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const int32_t *tokens,
                 uint32_t n_tokens, uint32_t n_prompt, struct rng *rng, const float *logits,
                 int32_t *ret_token)
{
    /* Looked at before bias and penalties too, so that a bad row never counts as a choice. */
    int32_t best = row_argmax(logits, s->n_vocab);

    if (best < 0)
        return SAMPLE_BAD_ROW;
    if (p->temperature > 0 || has_penalties(p))
        memcpy(s->row, logits, s->n_vocab * sizeof(*s->row));
    if (has_penalties(p)) {
        penalty_apply(p, tokens, n_tokens, n_prompt, s->counts, s->row, s->n_vocab);
        best = row_argmax(s->row, s->n_vocab);
        if (best < 0)
            return SAMPLE_BAD_ROW;
    }
    *ret_token = p->temperature > 0 ? pick_random(s, p, rng, s->row, s->row[best]) : best;
    return 0;
}
