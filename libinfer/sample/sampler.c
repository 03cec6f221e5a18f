/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler chain (see sampler.h for its order)
 *
 * Nothing is sorted. A prefix of the order by mass, which is what top-p and min-p leave, is drawn
 * from without finding its end: a token is drawn by mass from all that are left; when those before
 * it weigh less than top_p it is in the prefix and taken, and otherwise nothing from it on is, so
 * that the next draw is from those before it. Whatever draw is taken has the distribution of the
 * prefix, and few are not: log(1 / top_p) of them on average.
 */
#include "sample/sampler.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/cpu.h"
#include "sample/penalty.h"
#include "sample/row.h"
#include "sample/select.h"

struct sampler {
    const struct row_kernels *kernels;
    uint32_t n_vocab, n_row;
    float *peaks, *sums, *left; /* by runs of a row */
    float *masses;              /* whole runs */
    struct cand *cands;
    uint32_t *counts; /* zero between picks */
    struct penalty_edit *edits;
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

int sampler_new(uint32_t n_vocab, uint32_t n_row, struct sampler **ret_sampler)
{
    _cleanup_(sampler_freep) struct sampler *s = NEW(struct sampler, 1);
    const uint32_t n_runs = row_n_runs(n_row);
    const size_t n_whole = (size_t)n_runs * ROW_RUN;

    assert(n_vocab >= 1 && n_vocab <= n_row);
    if (!s)
        return -ENOMEM;
    s->kernels = row_kernels_get(cpu_flags());
    s->n_vocab = n_vocab;
    s->n_row = n_row;
    s->peaks = NEW(float, n_runs);
    s->sums = NEW(float, n_runs);
    s->left = NEW(float, n_runs);
    s->masses = NEW(float, n_whole);
    s->cands = NEW(struct cand, MAX(n_vocab, n_runs));
    s->counts = NEW(uint32_t, n_vocab);
    s->edits = NEW(struct penalty_edit, n_vocab);
    if (!s->peaks || !s->sums || !s->left || !s->masses || !s->cands || !s->counts || !s->edits)
        return -ENOMEM;
    *ret_sampler = STEAL(s);
    return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
    if (!s)
        return NULL;
    free(s->peaks);
    free(s->sums);
    free(s->left);
    free(s->masses);
    free(s->cands);
    free(s->counts);
    free(s->edits);
    free(s);
    return NULL;
}

/* Of a temperature that may be tiny: differences of logits stay finite. */
static float scale_of(const struct sample_params *p)
{
    return MIN(1 / p->temperature, 1e30f);
}

/* The last of the order that may be drawn: those of @key are, below index @id. */
struct border {
    float key;
    uint32_t id;
};

/* Draws by mass from what lies before the border; @sums are those of its runs. */
static uint32_t draw_before(const struct sampler *s, const float *sums, struct border border,
                            double total, struct rng *rng)
{
    const uint32_t n_runs = row_n_runs(s->n_vocab);
    double point = rng_double(rng) * total;
    uint32_t run = 0, last = 0;

    for (uint32_t i = 0; i < n_runs; i++) {
        if (sums[i] <= 0)
            continue;
        run = i;
        if (point < (double)sums[i])
            break;
        point -= (double)sums[i];
    }
    for (uint32_t i = run * ROW_RUN; i < (run + 1) * ROW_RUN; i++) {
        const float mass = s->masses[i];

        if (mass <= 0 || mass < border.key || (mass == border.key && i >= border.id))
            continue;
        if (point < (double)mass)
            return i;
        point -= (double)mass;
        last = i;
    }
    /* Only rounding leads here. */
    return last;
}

/* All stages without top-k and typical-p. The most likely token has mass 1. */
static int32_t pick_from_prefix(struct sampler *s, const struct sample_params *p, struct rng *rng,
                                const float *logits, float max)
{
    const uint32_t n_runs = row_n_runs(s->n_vocab);
    struct border border = {0, UINT32_MAX};
    const float *sums = s->sums;
    double total, enough;

    s->kernels->masses(logits, s->n_vocab, max, scale_of(p), s->masses, s->sums);
    total = row_total(s->sums, n_runs);
    enough = (double)p->top_p * total;
    if (p->min_p > 0) {
        border.key = p->min_p;
        s->kernels->before(s->masses, n_runs, border.key, border.id, s->sums, s->left);
        sums = s->left;
        total = row_total(sums, n_runs);
    }
    for (;;) {
        const uint32_t id = draw_before(s, sums, border, total, rng);

        if (p->top_p >= 1)
            return (int32_t)id;
        border = (struct border){s->masses[id], id};
        s->kernels->before(s->masses, n_runs, border.key, border.id, s->sums, s->left);
        sums = s->left;
        total = row_total(sums, n_runs);
        if (total <= 0 || total < enough)
            return (int32_t)id;
    }
}

/* The @top_k first of the row, or all, as candidates with masses. */
static uint32_t take_cands(struct sampler *s, const struct sample_params *p, const float *logits,
                           float max)
{
    const uint32_t k = p->top_k > 0 ? MIN(p->top_k, s->n_vocab) : s->n_vocab;
    const uint32_t n = row_top(logits, s->n_vocab, s->peaks, k, s->cands);

    for (uint32_t i = 0; i < n; i++)
        s->masses[i] = s->cands[i].key;
    s->kernels->masses(s->masses, n, max, scale_of(p), s->masses, s->sums);
    for (uint32_t i = 0; i < n; i++)
        s->cands[i].mass = s->masses[i];
    return n;
}

static double cands_total(const struct cand *c, uint32_t n)
{
    double total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += (double)c[i].mass;
    return total;
}

/*
 * Keeps the tokens whose surprise is nearest to the entropy until they weigh typical_p. With
 * z = (logit - max) × scale, of which the mass is the exponential, a surprise is
 * log(total) - z, and the entropy is the mean of that.
 */
static uint32_t cut_typical(const struct sample_params *p, struct cand *c, uint32_t n, float max)
{
    const double total = cands_total(c, n);
    const float scale = scale_of(p);
    double mean = 0;

    for (uint32_t i = 0; i < n; i++)
        if (c[i].mass > 0)
            mean += (double)c[i].mass * (double)((c[i].key - max) * scale);
    mean /= total;
    for (uint32_t i = 0; i < n; i++)
        c[i].key = c[i].mass > 0 ? -fabsf((c[i].key - max) * scale - (float)mean) : -INFINITY;
    n = cand_prefix(c, n, (double)p->typical_p * total);
    for (uint32_t i = 0; i < n; i++)
        c[i].key = c[i].mass;
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
    double point = rng_double(rng) * cands_total(c, n);
    int32_t last = c[0].id;

    for (uint32_t i = 0; i < n; i++) {
        if (point < (double)c[i].mass)
            return c[i].id;
        point -= (double)c[i].mass;
        if (c[i].mass > 0)
            last = c[i].id;
    }
    /* Only rounding leads here; a forbidden token must not profit by it. */
    return last;
}

static int32_t pick_from_cands(struct sampler *s, const struct sample_params *p, struct rng *rng,
                               const float *logits, float max)
{
    struct cand *c = s->cands;
    uint32_t n = take_cands(s, p, logits, max);

    if (p->typical_p < 1)
        n = cut_typical(p, c, n, max);
    if (p->top_p < 1)
        n = cand_prefix(c, n, (double)p->top_p * cands_total(c, n));
    if (p->min_p > 0)
        n = cut_min_p(p, c, n);
    assert(n > 0);
    return draw(c, n, rng);
}

/* The choice from a row with its peaks; negative when none is left. */
static int32_t pick(struct sampler *s, const struct sample_params *p, struct rng *rng,
                    const float *logits)
{
    const int32_t best = row_argmax(logits, s->n_vocab, s->peaks);

    if (best < 0 || p->temperature == 0)
        return best;
    if ((p->top_k > 0 && p->top_k < s->n_vocab) || p->typical_p < 1)
        return pick_from_cands(s, p, rng, logits, logits[best]);
    return pick_from_prefix(s, p, rng, logits, logits[best]);
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const int32_t *tokens,
                 uint32_t n_tokens, uint32_t n_prompt, struct rng *rng, float *logits,
                 int32_t *ret_token)
{
    uint32_t n_edits;
    int32_t token;
    bool valid;

    /* Looked at before bias and penalties too, so that a bad row never counts as a choice. */
    if (!s->kernels->peaks(logits, s->n_vocab, s->peaks) ||
        row_argmax(logits, s->n_vocab, s->peaks) < 0)
        return SAMPLE_BAD_ROW;
    if (!penalty_any(p)) {
        *ret_token = pick(s, p, rng, logits);
        return 0;
    }
    n_edits = penalty_apply(p, tokens, n_tokens, n_prompt, s->counts, logits, s->n_vocab, s->edits);
    valid = s->kernels->peaks(logits, s->n_vocab, s->peaks);
    token = valid ? pick(s, p, rng, logits) : -1;
    penalty_undo(s->edits, n_edits, logits);
    if (token < 0)
        return SAMPLE_BAD_ROW;
    *ret_token = token;
    return 0;
}

uint32_t sampler_logprob(struct sampler *s, const float *logits, uint32_t n_row, int32_t token,
                         uint32_t n_top, float *ret_logprob, struct inf_top_logprob *ret_top)
{
    double max, sum;
    int32_t best;

    assert(n_top <= SAMPLE_MAX_TOP && n_row >= s->n_vocab && n_row <= s->n_row);
    assert(token < (int32_t)n_row);
    *ret_logprob = NAN;
    if (!s->kernels->peaks(logits, n_row, s->peaks) ||
        (best = row_argmax(logits, n_row, s->peaks)) < 0)
        return 0;
    max = (double)logits[best];
    s->kernels->masses(logits, n_row, logits[best], 1, NULL, s->sums);
    sum = log(row_total(s->sums, row_n_runs(n_row)));
    if (token >= 0)
        *ret_logprob = (float)((double)logits[token] - max - sum);
    if (n_top == 0)
        return 0;
    /* The peaks may be of values behind the vocabulary: in its last run. */
    if (n_row > s->n_vocab)
        s->kernels->peaks(logits, s->n_vocab, s->peaks);
    n_top = row_top(logits, s->n_vocab, s->peaks, n_top, s->cands);
    cand_sort(s->cands, n_top);
    for (uint32_t i = 0; i < n_top; i++)
        ret_top[i] =
            (struct inf_top_logprob){s->cands[i].id, (float)((double)s->cands[i].key - max - sum)};
    return n_top;
}
