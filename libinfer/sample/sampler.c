/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks tokens by the stages that sampler.h lists
 *
 * The vocabulary is never sorted, and the exponentials of all its logits are computed only if a
 * formula needs their sum. Two methods of rejection sampling replace sorting. Both draw with
 * exactly the requested distribution, and reject few draws.
 */
#include "sample/sampler.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/cpu.h"
#include "sample/cands.h"
#include "sample/stages.h"
#include "sample/penalty.h"
#include "sample/row.h"
#include "sample/select.h"

/* Describes the candidates that remained after the latest pick by stages. */
struct post {
    uint32_t n, picked;
    double total; /* of the masses */
};

struct sampler {
    const struct row_kernels *kernels;
    uint32_t n_vocab, n_row;
    float *peaks, *sums, *left; /* per run of a row */
    float *envelope;            /* per run, padded to whole groups of ROW_RUN runs */
    double *groups;             /* per group of ROW_RUN runs */
    struct cand *cands;
    uint32_t *counts; /* zero between picks */
    struct penalty_edit *edits;
    float *masked; /* a row without the tokens that a mask excludes */
    struct post post;
};

int sample_params_init(struct sample_params *p, const struct inf_sampling *in)
{
    struct inf_logit_bias *bias = NULL;
    uint8_t *order = NULL;

    assert(in->temperature >= 0 && in->repetition_penalty >= 0);
    if (in->n_logit_bias > 0) {
        bias = NEW(struct inf_logit_bias, in->n_logit_bias);
        if (!bias)
            return -ENOMEM;
        memcpy(bias, in->logit_bias, in->n_logit_bias * sizeof(*bias));
    }
    if (in->order) {
        order = NEW(uint8_t, MAX(in->n_order, 1u));
        if (!order) {
            free(bias);
            return -ENOMEM;
        }
        memcpy(order, in->order, in->n_order);
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
        .dynatemp_range = in->dynatemp_range,
        .dynatemp_exponent = in->dynatemp_exponent > 0 ? in->dynatemp_exponent : 1,
        .top_n_sigma = in->top_n_sigma,
        .xtc_probability = in->xtc_threshold > 0.5f ? 0 : in->xtc_probability,
        .xtc_threshold = in->xtc_threshold,
        .mirostat = in->mirostat,
        .mirostat_tau = in->mirostat_tau,
        .mirostat_eta = in->mirostat_eta,
        .dry = {.multiplier = in->dry_multiplier,
                .base = in->dry_base,
                .allowed = in->dry_allowed_length,
                .last_n = in->dry_last_n > 0 ? in->dry_last_n : UINT32_MAX},
        .min_keep = in->min_keep,
        .order = order,
        .n_order = (uint32_t)in->n_order,
    };
    return 0;
}

void sample_params_done(struct sample_params *p)
{
    free(p->bias);
    free(p->order);
    dry_breakers_done(&p->dry.breakers);
    *p = (struct sample_params){0};
}

void sample_state_init(struct sample_state *state, const struct sample_params *p, uint64_t seed)
{
    *state = (struct sample_state){.mu = 2 * p->mirostat_tau};
    rng_seed(&state->rng, seed);
}

int sampler_new(uint32_t n_vocab, uint32_t n_row, struct sampler **ret_sampler)
{
    _cleanup_(sampler_freep) struct sampler *s = NEW(struct sampler, 1);
    const uint32_t n_runs = row_n_runs(n_row);
    const uint32_t n_groups = row_n_runs(n_runs), n_envelope = n_groups * ROW_RUN;

    assert(n_vocab >= 1 && n_vocab <= n_row);
    if (!s)
        return -ENOMEM;
    s->kernels = row_kernels_get(cpu_flags());
    s->n_vocab = n_vocab;
    s->n_row = n_row;
    s->peaks = NEW(float, n_runs);
    s->sums = NEW(float, n_runs);
    s->left = NEW(float, n_runs);
    s->envelope = NEW(float, n_envelope);
    s->groups = NEW(double, n_groups);
    s->cands = NEW(struct cand, MAX(n_vocab, n_runs));
    s->counts = NEW(uint32_t, n_vocab);
    s->edits = NEW(struct penalty_edit, n_vocab);
    s->masked = NEW(float, n_vocab); /* uses no memory until it is written */
    if (!s->peaks || !s->sums || !s->left || !s->envelope || !s->groups || !s->cands ||
        !s->counts || !s->edits || !s->masked)
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
    free(s->envelope);
    free(s->groups);
    free(s->cands);
    free(s->counts);
    free(s->edits);
    free(s->masked);
    free(s);
    return NULL;
}

/* Limits the scale for tiny temperatures, so that differences of logits stay finite. */
static float scale_of(const struct sample_params *p)
{
    return MIN(1 / p->temperature, 1e30f);
}

/* A row from which tokens are drawn by mass. */
struct weighed {
    const float *logits;
    uint32_t n;
    float max, scale;
};

/* Computes the masses of one run, with 0 behind the row. Returns their sum. */
static float run_masses(const struct sampler *s, const struct weighed *w, uint32_t run, float *mass)
{
    const uint32_t at = run * ROW_RUN;
    float sum;

    s->kernels->masses(w->logits + at, MIN(w->n - at, ROW_RUN), w->max, w->scale, mass, &sum);
    return sum;
}

/* Finds the weight in which @point lies if the weights are laid end to end. @point becomes the
 * distance within that weight. If rounding leads past the end, the result is the last non-zero
 * weight. */
static uint32_t find_point(const float *weights, uint32_t n, double *point)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (*point < (double)weights[i])
            return i;
        *point -= (double)weights[i];
        if (weights[i] > 0)
            last = i;
    }
    *point = 0;
    return last;
}

/*
 * Draws from the tokens of mass @least or more, each with a probability proportional to its mass.
 * The mass of a run is at most its largest mass times its length. These products form an envelope,
 * which needs no reading of the row. A point that is under the envelope but not under the masses is
 * rejected, and the envelope of its run becomes exact.
 */
static int32_t draw_under_envelope(struct sampler *s, const struct weighed *w, float least,
                                   struct rng *rng)
{
    const uint32_t n_runs = row_n_runs(w->n), n_groups = row_n_runs(n_runs);
    double total = 0;

    s->kernels->masses(s->peaks, n_runs, w->max, w->scale, s->envelope, s->sums);
    for (uint32_t g = 0; g < n_groups; g++)
        s->groups[g] = (double)s->sums[g] * ROW_RUN;
    for (uint32_t i = 0; i < n_groups * ROW_RUN; i++)
        s->envelope[i] *= ROW_RUN;
    for (;;) {
        double point;
        float mass[ROW_RUN], sum = 0;
        uint32_t g = 0, run, i;

        total = 0;
        for (uint32_t k = 0; k < n_groups; k++)
            total += s->groups[k];
        point = rng_double(rng) * total;
        while (g + 1 < n_groups && point >= s->groups[g])
            point -= s->groups[g++];
        run = g * ROW_RUN + find_point(s->envelope + g * ROW_RUN, ROW_RUN, &point);
        if (s->envelope[run] > 0)
            run_masses(s, w, run, mass);
        for (i = 0; i < ROW_RUN && s->envelope[run] > 0; i++) {
            mass[i] = mass[i] >= least ? mass[i] : 0;
            sum += mass[i];
        }
        if (point < (double)sum)
            return (int32_t)(run * ROW_RUN + find_point(mass, ROW_RUN, &point));
        s->groups[g] -= (double)s->envelope[run] - (double)sum;
        s->envelope[run] = sum;
    }
}

/*
 * Draws a token by mass from a prefix of the list of tokens in order of decreasing mass. The prefix
 * is the shortest that has the share top_p of the total mass; tokens of less mass than @least are
 * left out. This list is never made. Instead a token is drawn from all remaining tokens. If the
 * tokens before this token have less than the share top_p, it is in the prefix and is accepted.
 * Otherwise the token and all tokens behind it are outside the prefix, and the next draw is from
 * the tokens before it. On average log(1 / top_p) draws are rejected.
 */
static int32_t draw_from_prefix(struct sampler *s, const struct weighed *w, float top_p,
                                float least, struct rng *rng)
{
    const uint32_t n_runs = row_n_runs(w->n);
    float key = least; /* the border: tokens with more mass than key remain, and those with mass
                          key below index id */
    uint32_t id = UINT32_MAX;
    const float *sums = s->sums;
    double enough;

    s->kernels->masses(w->logits, w->n, w->max, w->scale, NULL, s->sums);
    enough = (double)top_p * row_total(s->sums, n_runs);
    if (least > 0) {
        s->kernels->before(w->logits, w->n, w->max, w->scale, key, id, s->sums, s->left);
        sums = s->left;
    }
    for (;;) {
        double point = rng_double(rng) * row_total(sums, n_runs);
        const uint32_t run = find_point(sums, n_runs, &point);
        float mass[ROW_RUN], left[ROW_RUN];
        double before;

        run_masses(s, w, run, mass);
        for (uint32_t i = 0; i < ROW_RUN; i++)
            left[i] = mass[i] > key || (mass[i] == key && run * ROW_RUN + i < id) ? mass[i] : 0;
        id = run * ROW_RUN + find_point(left, ROW_RUN, &point);
        key = mass[id % ROW_RUN];
        s->kernels->before(w->logits, w->n, w->max, w->scale, key, id, s->sums, s->left);
        sums = s->left;
        before = row_total(sums, n_runs);
        if (before <= 0 || before < enough)
            return (int32_t)id;
    }
}

/* Applies all stages after the temperature except top-k and typical-p. The most likely token has
 * mass 1. */
static int32_t pick_by_mass(struct sampler *s, const struct sample_params *p, struct rng *rng,
                            const float *logits, float max)
{
    const struct weighed w = {logits, s->n_vocab, max, scale_of(p)};

    if (p->top_p < 1)
        return draw_from_prefix(s, &w, p->top_p, p->min_p, rng);
    return draw_under_envelope(s, &w, p->min_p, rng);
}

/*
 * Takes the first @top_k tokens of the row, or all, as candidates. The result of a draw depends on
 * their order, so candidates that a list (core/top.h) could also provide are sorted like the list.
 */
static uint32_t take_cands(struct sampler *s, const struct sample_params *p, const float *logits)
{
    const uint32_t k = p->top_k > 0 ? MIN(p->top_k, s->n_vocab) : s->n_vocab;
    const uint32_t n = row_top(logits, s->n_vocab, s->peaks, k, s->cands);

    if (k <= TOP_MAX)
        cand_sort(s->cands, n);
    return n;
}

/* Applies the stages after top-k to the first @n candidates of s->cands. */
static int32_t pick_from_cands(struct sampler *s, const struct sample_params *p, struct rng *rng,
                               uint32_t n, float max)
{
    struct cand *c = s->cands;

    cands_weigh(s->kernels, c, n, max, scale_of(p));
    if (p->typical_p < 1)
        n = cands_cut_typical(c, n, max, scale_of(p), p->typical_p, 1);
    if (p->top_p < 1)
        n = cand_prefix(c, n, (double)p->top_p * cands_total(c, n));
    if (p->min_p > 0)
        n = cands_cut_min_p(c, n, p->min_p);
    assert(n > 0);
    return c[cands_draw(c, n, rng)].id;
}

/* Picks a token with the stages one by one. @best is the most likely token. */
static int32_t pick_by_stages(struct sampler *s, const struct sample_params *p,
                              struct sample_state *state, const float *logits, int32_t best)
{
    struct stages stages = {.kernels = s->kernels,
                            .p = p,
                            .logits = logits,
                            .n_vocab = s->n_vocab,
                            .cands = s->cands,
                            .scale = 1};

    if (p->temperature == 0) {
        s->cands[0] = (struct cand){logits[best], 1, best};
        s->post = (struct post){.n = 1, .total = 1};
        return best;
    }
    stages.n = row_top(logits, s->n_vocab, s->peaks, s->n_vocab, s->cands);
    s->post.picked = stages_pick(&stages, state);
    s->post.n = stages.n;
    s->post.total = stages.total;
    return s->cands[s->post.picked].id;
}

/* Picks a token from a row whose peaks are known; negative if no token is left. */
static int32_t pick_token(struct sampler *s, const struct sample_params *p,
                          struct sample_state *state, const float *logits)
{
    const int32_t best = row_argmax(logits, s->n_vocab, s->peaks);

    if (best < 0 || (p->temperature == 0 && !p->post_logprobs))
        return best;
    if (stages_are_needed(p))
        return pick_by_stages(s, p, state, logits, best);
    if ((p->top_k > 0 && p->top_k < s->n_vocab) || p->typical_p < 1)
        return pick_from_cands(s, p, &state->rng, take_cands(s, p, logits), logits[best]);
    return pick_by_mass(s, p, &state->rng, logits, logits[best]);
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const struct sample_text *text,
                 struct sample_state *state, float *logits, int32_t *ret_token)
{
    uint32_t n_edits = 0;
    int32_t token;
    bool valid;

    /* The row is also checked before masks, bias and penalties, so that an invalid row never gives
     * a token. */
    if (!s->kernels->peaks(logits, s->n_vocab, s->peaks) ||
        row_argmax(logits, s->n_vocab, s->peaks) < 0)
        return SAMPLE_BAD_ROW;
    if (!text->mask && text->n_forbidden == 0 && !penalty_any(p)) {
        *ret_token = pick_token(s, p, state, logits);
        return 0;
    }
    if (text->mask) {
        s->kernels->mask(logits, s->n_vocab, text->mask, s->masked);
        logits = s->masked;
    }
    n_edits = penalty_apply(p, text, state->repeats, s->counts, logits, s->n_vocab, s->edits);
    valid = s->kernels->peaks(logits, s->n_vocab, s->peaks);
    token = valid ? pick_token(s, p, state, logits) : -1;
    penalty_undo(s->edits, n_edits, logits);
    if (token < 0)
        return valid ? SAMPLE_NONE_LEFT : SAMPLE_BAD_ROW;
    *ret_token = token;
    return 0;
}

uint32_t sampler_post_logprob(struct sampler *s, uint32_t n_top, float *ret_logprob,
                              struct inf_top_logprob *ret_top)
{
    const uint32_t n = MIN(n_top, s->post.n);
    struct cand *c = s->cands;

    *ret_logprob = (float)log((double)c[s->post.picked].mass / s->post.total);
    cand_select(c, s->post.n, n);
    cand_sort(c, n);
    for (uint32_t i = 0; i < n; i++)
        ret_top[i] =
            (struct inf_top_logprob){c[i].id, (float)log((double)c[i].mass / s->post.total)};
    return n;
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
    /* The known peak of a run may be a value of the row behind the vocabulary. */
    if (n_row > s->n_vocab)
        s->kernels->peaks(logits, s->n_vocab, s->peaks);
    n_top = row_top(logits, s->n_vocab, s->peaks, n_top, s->cands);
    cand_sort(s->cands, n_top);
    for (uint32_t i = 0; i < n_top; i++)
        ret_top[i] =
            (struct inf_top_logprob){s->cands[i].id, (float)((double)s->cands[i].key - max - sum)};
    return n_top;
}

uint32_t sampler_list_need(const struct sampler *s, const struct sample_params *p, uint32_t n_top)
{
    assert(n_top <= SAMPLE_MAX_TOP);
    if (penalty_any(p) || p->post_logprobs)
        return 0;
    if (p->temperature == 0)
        return MAX(n_top, 1u);
    if (stages_are_needed(p) || p->top_k == 0 || p->top_k > TOP_MAX || p->top_k >= s->n_vocab)
        return 0;
    return MAX(n_top, p->top_k);
}

/* Takes the first @n tokens of the list, or all, as candidates. */
static uint32_t take_listed(const struct sampler *s, const struct top_row *list, uint32_t n,
                            struct cand *ret_cands)
{
    uint32_t n_taken = 0;

    for (uint32_t i = 0; i < list->n && n_taken < n; i++)
        if ((uint32_t)list->ids[i] < s->n_vocab)
            ret_cands[n_taken++] = (struct cand){list->values[i], 0, list->ids[i]};
    return n_taken;
}

bool sampler_list_suffices(const struct sampler *s, const struct top_row *list)
{
    struct cand cands[TOP_MAX];
    const uint32_t n = take_listed(s, list, TOP_MAX, cands);

    assert(list->n <= list->n_wanted && list->n_wanted <= TOP_MAX);
    /* A list that is shorter than requested holds all values of the row above -infinity. */
    return n == list->n_wanted || (n > 0 && list->n < list->n_wanted);
}

int32_t sampler_pick_from_list(struct sampler *s, const struct sample_params *p, struct rng *rng,
                               const struct top_row *list)
{
    const uint32_t n = take_listed(s, list, p->temperature == 0 ? 1 : p->top_k, s->cands);

    assert(n > 0);
    if (p->temperature == 0)
        return s->cands[0].id;
    return pick_from_cands(s, p, rng, n, s->cands[0].key);
}

uint32_t sampler_logprob_from_list(const struct sampler *s, const struct top_row *list,
                                   int32_t token, uint32_t n_top, float *ret_logprob,
                                   struct inf_top_logprob *ret_top)
{
    const double max = (double)list->values[0];
    struct cand cands[TOP_MAX];
    uint32_t i = 0;

    while (list->ids[i] != token)
        i++;
    *ret_logprob = (float)((double)list->values[i] - max - list->log_sum);
    n_top = take_listed(s, list, n_top, cands);
    for (i = 0; i < n_top; i++)
        ret_top[i] = (struct inf_top_logprob){cands[i].id,
                                              (float)((double)cands[i].key - max - list->log_sum)};
    return n_top;
}
