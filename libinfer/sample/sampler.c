/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks tokens by the stages that sampler.h lists
 *
 * The mass of a token is its probability before it is divided by the sum of all masses. A row of
 * logits is divided into runs of ROW_RUN tokens (row.h). The vocabulary is never sorted. If all
 * tokens can be drawn, each run is first summed up to one number. A random number then selects a
 * run, and masses of single tokens are computed only for this run. If a few tokens together have at
 * least the share top_p of all masses, only these tokens are examined.
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

/* The sum of the largest 256 masses is nearly always at least the share top_p of all masses. */
#define LIKELY_TOKENS 256u

/* Describes the candidates that remained after the latest pick by stages. */
struct post {
    uint32_t n, picked;
    double total; /* sum of the masses */
};

struct sampler {
    const struct row_kernels *kernels;
    uint32_t n_vocab, n_row;
    float *peaks, *sums, *left; /* per run of a row */
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
        .repetition =
            in->repetition_penalty > 0 && in->penalty_last_n > 0 ? in->repetition_penalty : 1,
        .presence = in->presence_penalty,
        .frequency = in->frequency_penalty,
        .window = in->penalty_last_n,
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
    *state =
        (struct sample_state){.seed = (uint32_t)(seed ^ seed >> 32), .mu = 2 * p->mirostat_tau};
}

static struct twister *state_twister(const struct sample_state *state)
{
    struct twister *t = NEW(struct twister, 1);

    if (t)
        twister_seed(t, state->seed);
    return t;
}

int sample_state_start(struct sample_state *state, const struct sample_params *p,
                       uint32_t max_tokens)
{
    const bool random = p->temperature > 0, xtc = random && p->xtc_probability > 0;

    state->draw = random ? state_twister(state) : NULL;
    state->xtc = xtc ? state_twister(state) : NULL;
    state->repeats = dry_is_on(&p->dry) ? NEW(uint32_t, max_tokens) : NULL;
    if ((!random || state->draw) && (!xtc || state->xtc) && (!dry_is_on(&p->dry) || state->repeats))
        return 0;
    sample_state_stop(state);
    return -ENOMEM;
}

void sample_state_stop(struct sample_state *state)
{
    free(STEAL(state->draw));
    free(STEAL(state->xtc));
    free(STEAL(state->repeats));
}

int sampler_new(uint32_t n_vocab, uint32_t n_row, struct sampler **ret_sampler)
{
    _cleanup_(sampler_freep) struct sampler *s = NEW(struct sampler, 1);
    const uint32_t n_runs = row_n_runs(n_row);

    assert(n_vocab >= 1 && n_vocab <= n_row);
    if (!s)
        return -ENOMEM;
    s->kernels = row_kernels_get(cpu_flags());
    s->n_vocab = n_vocab;
    s->n_row = n_row;
    s->peaks = NEW(float, n_runs);
    s->sums = NEW(float, n_runs);
    s->left = NEW(float, n_runs);
    s->cands = NEW(struct cand, MAX(n_vocab, n_runs));
    s->counts = NEW(uint32_t, n_vocab);
    s->edits = NEW(struct penalty_edit, n_vocab);
    s->masked = NEW(float, n_vocab); /* uses no memory until it is written */
    if (!s->peaks || !s->sums || !s->left || !s->cands || !s->counts || !s->edits || !s->masked)
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
    free(s->cands);
    free(s->counts);
    free(s->edits);
    free(s->masked);
    free(s);
    return NULL;
}

int samplers_new(uint32_t n, uint32_t n_vocab, uint32_t n_row, struct sampler ***ret_samplers)
{
    struct sampler **samplers = NEW(struct sampler *, n + 1);
    int r = samplers ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = sampler_new(n_vocab, n_row, &samplers[i]);
    if (r < 0)
        samplers_free(samplers);
    else
        *ret_samplers = samplers;
    return r;
}

struct sampler **samplers_free(struct sampler **samplers)
{
    for (struct sampler **s = samplers; s && *s; s++)
        sampler_free(*s);
    free(samplers);
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

/* Finds the first token whose mass, added to the masses of the tokens before it, reaches @point.
 * Tokens of less mass than @least are left out. */
static int32_t find_token(struct sampler *s, const struct weighed *w, const float *sums,
                          float least, double point)
{
    const uint32_t n_runs = row_n_runs(w->n);
    uint32_t run = 0, last = 0;
    float mass[ROW_RUN], sum;
    double before = 0;

    for (uint32_t i = 0; i < n_runs; i++) {
        if (!(sums[i] > 0))
            continue;
        run = i;
        if (before + (double)sums[i] >= point)
            break;
        before += (double)sums[i];
    }
    s->kernels->masses(w->logits + run * ROW_RUN, MIN(w->n - run * ROW_RUN, ROW_RUN), w->max,
                       w->scale, mass, &sum);
    for (uint32_t i = 0; i < ROW_RUN; i++) {
        if (!(mass[i] > 0) || mass[i] < least)
            continue;
        last = i;
        before += (double)mass[i];
        if (before >= point)
            break;
    }
    return (int32_t)(run * ROW_RUN + last);
}

/* Draws from all tokens whose mass is at least min-p. The most likely token has mass 1. */
static int32_t pick_by_mass(struct sampler *s, const struct sample_params *p,
                            struct twister *random, const float *logits, float max)
{
    const struct weighed w = {logits, s->n_vocab, max, scale_of(p)};
    const uint32_t n_runs = row_n_runs(w.n);
    const float *sums = s->sums;
    double total;

    s->kernels->masses(logits, w.n, max, w.scale, NULL, s->sums);
    if (p->min_p > 0) {
        s->kernels->before(logits, w.n, max, w.scale, p->min_p, UINT32_MAX, s->sums, s->left);
        sums = s->left;
    }
    total = row_total(sums, n_runs);
    if (w.n == 1 || (p->min_p > 0 && total <= 1)) /* one candidate is left */
        return find_token(s, &w, sums, p->min_p, 0);
    return find_token(s, &w, sums, p->min_p, twister_double(random) * total);
}

/* Prepares the stages for the candidates s->cands[0 … @n - 1], which are all tokens, or only the
 * top_k most likely ones. */
static struct stages stages_of(struct sampler *s, const struct sample_params *p,
                               const float *logits, uint32_t n)
{
    return (struct stages){.kernels = s->kernels,
                           .p = p,
                           .logits = logits,
                           .n_vocab = s->n_vocab,
                           .cands = s->cands,
                           .n = n,
                           .has_zeros = n < s->n_vocab,
                           .scale = 1};
}

/* Picks a token with the stages one by one. */
static int32_t pick_by_stages(struct sampler *s, struct stages stages, struct sample_state *state)
{
    s->post.picked = stages_pick(&stages, state);
    s->post.n = stages.n;
    s->post.total = stages.total;
    return s->cands[s->post.picked].id;
}

/*
 * Draws from the shortest list of most likely tokens whose masses are together at least the share
 * top_p of all masses. Tokens with less mass than min-p permits are not drawn. Returns -1 if the
 * list is longer than LIKELY_TOKENS.
 */
static int32_t pick_from_likely(struct sampler *s, const struct sample_params *p,
                                struct twister *random, const float *logits, float max)
{
    struct stages stages =
        stages_of(s, p, logits, row_top(logits, s->n_vocab, s->peaks, LIKELY_TOKENS, s->cands));
    double enough;
    uint32_t kept = 0;

    s->kernels->masses(logits, s->n_vocab, max, scale_of(p), NULL, s->sums);
    enough = (double)p->top_p * row_total(s->sums, row_n_runs(s->n_vocab));
    cands_weigh(s->kernels, s->cands, stages.n, max, scale_of(p));
    if (cands_total(s->cands, stages.n) < enough)
        return -1;
    stages.n = cand_prefix(s->cands, stages.n, enough);
    for (uint32_t i = 0; i < stages.n; i++)
        if (s->cands[i].mass >= p->min_p)
            s->cands[kept++] = s->cands[i];
    stages.n = kept;
    stages.order = ORDER_LOGIT;
    stages.has_zeros = false;
    stages.total = cands_total(s->cands, kept);
    return s->cands[stages_draw(&stages, random)].id;
}

/* Returns whether a choice needs only the top_k most likely tokens. */
static bool needs_top_k(const struct sampler *s, const struct sample_params *p)
{
    return p->top_k < s->n_vocab && stages_begin_with_top_k(p);
}

/* Picks a token at random. @best is the most likely token. */
static int32_t pick_random(struct sampler *s, const struct sample_params *p,
                           struct sample_state *state, const float *logits, int32_t best)
{
    const bool top_k = needs_top_k(s, p);
    int32_t token = -1;

    if (p->top_k == 0 && !stages_are_needed(p) && p->typical_p >= 1)
        token = p->top_p >= 1 ? pick_by_mass(s, p, state->draw, logits, logits[best])
                              : pick_from_likely(s, p, state->draw, logits, logits[best]);
    if (token >= 0)
        return token;
    return pick_by_stages(
        s,
        stages_of(s, p, logits,
                  row_top(logits, s->n_vocab, s->peaks, top_k ? p->top_k : s->n_vocab, s->cands)),
        state);
}

/* Picks a token from a row whose peaks are known; negative if no token is left. */
static int32_t pick_token(struct sampler *s, const struct sample_params *p,
                          struct sample_state *state, const float *logits)
{
    const int32_t best = row_argmax(logits, s->n_vocab, s->peaks);

    if (best >= 0 && p->temperature > 0)
        return pick_random(s, p, state, logits, best);
    s->cands[0] = (struct cand){best >= 0 ? logits[best] : 0, 1, best};
    s->post = (struct post){.n = 1, .total = 1};
    return best;
}

static bool mask_permits(const uint32_t *mask, int32_t token)
{
    return mask[token / 32] >> token % 32 & 1;
}

/*
 * Picks a token from a row without invalid values. Returns -1 if no token is left, and sets
 * *ret_valid to false if the row has become invalid. With a mask, random choices are first made
 * without it, like those of llama.cpp. Usually the mask permits the choice. s->peaks already holds
 * the peaks of the row (the largest value of each run) unless the row was @edited.
 */
static int32_t pick_permitted(struct sampler *s, const struct sample_params *p,
                              const uint32_t *mask, struct sample_state *state, const float *logits,
                              bool edited, bool *ret_valid)
{
    int32_t token = -1;

    *ret_valid = !edited || s->kernels->peaks(logits, s->n_vocab, s->peaks);
    if (!*ret_valid)
        return -1;
    if (!mask || p->temperature > 0)
        token = pick_token(s, p, state, logits);
    if (!mask || (token >= 0 && mask_permits(mask, token)))
        return token;
    s->kernels->mask(logits, s->n_vocab, mask, s->masked);
    *ret_valid = s->kernels->peaks(s->masked, s->n_vocab, s->peaks);
    return *ret_valid ? pick_token(s, p, state, s->masked) : -1;
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const struct sample_text *text,
                 struct sample_state *state, float *logits, int32_t *ret_token)
{
    uint32_t n_edits;
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
    n_edits = penalty_apply(p, text, state->repeats, s->counts, logits, s->n_vocab, s->edits);
    token = pick_permitted(s, p, text->mask, state, logits, n_edits > 0, &valid);
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
    /* If a row is longer than the vocabulary, the peak of a run may be a value that belongs to no
     * token. So the peaks are computed again without such values. */
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
    if (!needs_top_k(s, p) || p->top_k > TOP_MAX)
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

int32_t sampler_pick_from_list(struct sampler *s, const struct sample_params *p,
                               struct sample_state *state, const struct top_row *list)
{
    const uint32_t n = take_listed(s, list, p->temperature == 0 ? 1 : p->top_k, s->cands);

    struct stages stages = stages_of(s, p, NULL, n);

    assert(n > 0);
    if (p->temperature == 0)
        return s->cands[0].id;
    stages.list = list;
    return pick_by_stages(s, stages, state);
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
