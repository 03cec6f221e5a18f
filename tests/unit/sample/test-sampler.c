/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the sampler chain with a reference that sorts all tokens and computes in double
 * precision. Both must be able to draw the same tokens, and the frequencies of the tokens must pass
 * a chi-square test. Seeds are fixed, so results do not vary.
 */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "sample/sampler.h"

#define MAX_V 600

struct ref {
    double p;
    int32_t id;
};

static double ref_key[MAX_V];

static int by_key(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    const double kx = ref_key[x->id], ky = ref_key[y->id];

    return kx != ky ? (kx > ky ? -1 : 1) : x->id - y->id;
}

static uint32_t cut(struct ref *r, uint32_t n, double mass)
{
    double total = 0, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        total += r[i].p;
    for (uint32_t i = 0; i < n; i++) {
        sum += r[i].p;
        if (sum >= mass * total)
            return i + 1;
    }
    return n;
}

static void normalise(struct ref *r, uint32_t n)
{
    double total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += r[i].p;
    for (uint32_t i = 0; i < n; i++)
        r[i].p /= total;
}

static void sort_by_p(struct ref *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ref_key[r[i].id] = r[i].p;
    qsort(r, n, sizeof(*r), by_key);
}

/* Writes the distribution that sampler.h defines to @probs [n]. */
static void reference(const struct inf_sampling *s, const float *logits, uint32_t n, double *probs)
{
    static struct ref r[MAX_V];
    double max = -INFINITY;
    uint32_t m = n;

    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++) {
        r[i] = (struct ref){exp(((double)logits[i] - max) / (double)s->temperature), (int32_t)i};
        ref_key[i] = (double)logits[i];
    }
    qsort(r, m, sizeof(*r), by_key);
    if (s->top_k > 0)
        m = MIN(m, s->top_k);
    normalise(r, m);
    if (s->typical_p > 0 && s->typical_p < 1) {
        double entropy = 0;

        for (uint32_t i = 0; i < m; i++)
            if (r[i].p > 0)
                entropy -= r[i].p * log(r[i].p);
        for (uint32_t i = 0; i < m; i++)
            ref_key[r[i].id] = r[i].p > 0 ? -fabs(-log(r[i].p) - entropy) : -INFINITY;
        qsort(r, m, sizeof(*r), by_key);
        m = cut(r, m, (double)s->typical_p);
        normalise(r, m);
        sort_by_p(r, m);
    }
    if (s->top_p > 0 && s->top_p < 1)
        m = cut(r, m, (double)s->top_p);
    if (s->min_p > 0)
        for (uint32_t i = 0; i < m; i++)
            if (r[i].p < (double)s->min_p * r[0].p)
                m = i;
    normalise(r, m);
    for (uint32_t i = 0; i < n; i++)
        probs[i] = 0;
    for (uint32_t i = 0; i < m; i++)
        probs[r[i].id] = r[i].p;
}

static void fill_logits(struct rng *rng, float *logits, uint32_t n, float spread)
{
    for (uint32_t i = 0; i < n; i++)
        logits[i] = (float)(rng_double(rng) + rng_double(rng) + rng_double(rng) - 1.5) * spread;
}

/* Draws tokens and compares their frequencies with the reference. No token with the probability 0
 * may be drawn, and chi-square must be within 5 sigma, or more if there are few bins. */
static void check_distribution(const struct inf_sampling *s, uint32_t n_vocab, float spread,
                               uint64_t seed)
{
    static float logits[MAX_V];
    static double probs[MAX_V];
    static uint32_t counts[MAX_V];
    const struct sample_text text = {.tokens = (const int32_t[]){0}, .n_tokens = 1, .n_prompt = 1};
    struct sample_state state;
    const uint32_t n_draws = 8000;
    struct rng rng;
    struct sample_params p;
    struct sampler *sampler;
    double chi = 0, rest_expected = 0, rest_seen = 0;
    uint32_t n_bins = 0;

    rng_seed(&rng, seed);
    fill_logits(&rng, logits, n_vocab, spread);
    reference(s, logits, n_vocab, probs);
    memset(counts, 0, sizeof(counts));
    ASSERT_OK(sampler_new(n_vocab, n_vocab, &sampler));
    ASSERT_OK(sample_params_init(&p, s));
    sample_state_init(&state, &p, seed);
    ASSERT_OK(sample_state_start(&state, &p, 1));
    for (uint32_t i = 0; i < n_draws; i++) {
        int32_t t = -1;

        assert_int_equal(sampler_pick(sampler, &p, &text, &state, logits, &t), 0);
        assert_in_range(t, 0, n_vocab - 1);
        counts[t]++;
    }
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double expected = probs[i] * n_draws;

        if (expected == 0)
            assert_int_equal(counts[i], 0);
        if (expected < 10) {
            rest_expected += expected;
            rest_seen += counts[i];
            continue;
        }
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        n_bins++;
    }
    if (rest_expected >= 10) {
        chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        n_bins++;
    }
    if (n_bins > 1)
        assert_true(chi < n_bins + 14 + 5 * sqrt(2.0 * (n_bins - 1)));
    sample_state_stop(&state);
    sample_params_done(&p);
    sampler_free(sampler);
}

TEST(each_stage_has_the_reference_distribution)
{
    static const struct inf_sampling stages[] = {
        {.temperature = 1},
        {.temperature = 0.3f},
        {.temperature = 2.5f},
        {.temperature = 1, .top_k = 1},
        {.temperature = 1, .top_k = 7},
        {.temperature = 0.8f, .top_k = 550},
        {.temperature = 1, .top_p = 0.5f},
        {.temperature = 1.5f, .top_p = 0.95f},
        {.temperature = 0.7f, .top_p = 0.01f},
        {.temperature = 1, .min_p = 0.1f},
        {.temperature = 2, .min_p = 0.5f},
        {.temperature = 1, .typical_p = 0.3f},
        {.temperature = 1.2f, .typical_p = 0.9f},
        {.temperature = 0.9f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f},
        {.temperature = 1.1f, .top_k = 100, .typical_p = 0.8f, .top_p = 0.8f, .min_p = 0.02f},
        {.temperature = 1, .typical_p = 0.7f, .top_p = 0.9f, .min_p = 0.01f},
    };
    static const uint32_t sizes[] = {1, 5, MAX_V};

    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
            check_distribution(&stages[i], sizes[k], 6, 11 + i);
            check_distribution(&stages[i], sizes[k], 0.5f, 77 + i);
        }
}

static int32_t pick(const struct inf_sampling *s, const float *row, uint32_t n,
                    const int32_t *tokens, uint32_t n_tokens, uint32_t n_prompt, int *ret_status)
{
    const struct sample_text text = {.tokens = tokens, .n_tokens = n_tokens, .n_prompt = n_prompt};
    static float logits[MAX_V];
    struct sample_params p;
    struct sampler *sampler;
    struct sample_state state;
    int32_t t = -1;
    int r;

    memcpy(logits, row, n * sizeof(*row));
    ASSERT_OK(sampler_new(n, n, &sampler));
    ASSERT_OK(sample_params_init(&p, s));
    sample_state_init(&state, &p, 5);
    ASSERT_OK(sample_state_start(&state, &p, 1));
    r = sampler_pick(sampler, &p, &text, &state, logits, &t);
    assert_memory_equal(logits, row, n * sizeof(*row));
    /* A second pick gives the same token, because the scratch memory was reset. */
    if (r == 0 && s->temperature == 0) {
        int32_t again = -1;

        assert_int_equal(sampler_pick(sampler, &p, &text, &state, logits, &again), 0);
        assert_int_equal(again, t);
    }
    sample_state_stop(&state);
    sample_params_done(&p);
    sampler_free(sampler);
    if (ret_status)
        *ret_status = r;
    else
        assert_int_equal(r, 0);
    return t;
}

TEST(greedy_takes_the_lowest_of_equals)
{
    const float logits[] = {1, 3, 2, 3, 3};
    const int32_t tokens[] = {0};

    assert_int_equal(pick(&(struct inf_sampling){0}, logits, 5, tokens, 1, 1, NULL), 1);
}

TEST(repetition_penalty_sees_signs_window_and_prompt)
{
    const float logits[] = {2, 1.9f, -1, -1.2f};
    const int32_t tokens[] = {0, 0, 2, 3};
    struct inf_sampling s = {.repetition_penalty = 1.5f, .penalty_last_n = 64};

    /* The penalty applies once per token, however often the token occurs: 2 / 1.5 < 1.9. */
    assert_int_equal(pick(&s, logits, 4, tokens, 4, 4, NULL), 1);
    /* Tokens outside of the window are not penalized. */
    s.penalty_last_n = 2;
    assert_int_equal(pick(&s, logits, 4, tokens, 4, 4, NULL), 0);
    /* No token is inside of a window of 0 tokens. */
    s.penalty_last_n = 0;
    assert_int_equal(pick(&s, logits, 4, tokens, 1, 1, NULL), 0);
    /* Negative logits are reduced as well. */
    s = (struct inf_sampling){
        .repetition_penalty = 1.5f,
        .penalty_last_n = 64,
        .logit_bias = (const struct inf_logit_bias[]){{0, -100}, {1, -1000}},
        .n_logit_bias = 2,
    };
    assert_int_equal(pick(&s, logits, 4, (const int32_t[]){2}, 1, 1, NULL), 3);
}

TEST(presence_and_frequency_see_generated_tokens_alone)
{
    const float logits[] = {2, 1.5f, 0};
    const int32_t tokens[] = {0, 0, 0, 1, 1};
    struct inf_sampling s = {.presence_penalty = 1};

    assert_int_equal(pick(&s, logits, 3, tokens, 3, 3, NULL), 0);
    assert_int_equal(pick(&s, logits, 3, tokens, 3, 2, NULL), 1);
    s = (struct inf_sampling){.frequency_penalty = 0.2f};
    assert_int_equal(pick(&s, logits, 3, tokens, 3, 2, NULL), 0);
    s.frequency_penalty = 0.3f;
    assert_int_equal(pick(&s, logits, 3, tokens, 3, 1, NULL), 1);
    s.frequency_penalty = 0.4f;
    s.presence_penalty = 0.1f;
    assert_int_equal(pick(&s, logits, 3, tokens, 5, 0, NULL), 0);
}

TEST(logit_bias_adds_and_forbids)
{
    const float logits[] = {5, 1, 0};
    const int32_t tokens[] = {0};
    struct inf_logit_bias bias[] = {{2, 6}, {0, 1}};
    struct inf_sampling s = {.logit_bias = bias, .n_logit_bias = 2};
    int status;

    assert_int_equal(pick(&s, logits, 3, tokens, 1, 1, NULL), 0);
    bias[1] = (struct inf_logit_bias){0, -100};
    assert_int_equal(pick(&s, logits, 3, tokens, 1, 1, NULL), 2);
    /* A forbidden token is never drawn, at any temperature. */
    s.temperature = 1000;
    s.n_logit_bias = 1;
    bias[0] = (struct inf_logit_bias){1, -100};
    for (uint32_t k = 0; k < 4; k++) {
        s.top_k = k;
        assert_int_not_equal(pick(&s, logits, 3, tokens, 1, 1, NULL), 1);
    }
    /* A bias forbids all tokens but one. */
    s = (struct inf_sampling){
        .logit_bias = (const struct inf_logit_bias[]){{0, -100}, {1, -100}, {2, -100}},
        .n_logit_bias = 3,
    };
    pick(&s, logits, 3, tokens, 1, 1, &status);
    assert_int_equal(status, SAMPLE_NONE_LEFT);
}

TEST(rows_of_nan_are_reported)
{
    const int32_t tokens[] = {0};
    int status;

    for (unsigned t = 0; t < 2; t++) {
        const struct inf_sampling s = {.temperature = (float)t};

        pick(&s, (const float[]){1, NAN, 2}, 3, tokens, 1, 1, &status);
        assert_int_equal(status, SAMPLE_BAD_ROW);
        pick(&s, (const float[]){1, INFINITY, 2}, 3, tokens, 1, 1, &status);
        assert_int_equal(status, SAMPLE_BAD_ROW);
        pick(&s, (const float[]){-INFINITY, -INFINITY}, 2, tokens, 1, 1, &status);
        assert_int_equal(status, SAMPLE_BAD_ROW);
        assert_int_equal(pick(&s, (const float[]){-INFINITY, 1e-3f}, 2, tokens, 1, 1, NULL), 1);
    }
}

TEST(tiny_and_huge_temperatures_are_fine)
{
    const float logits[] = {1, 1.5f, -1e30f, 1e30f};
    const int32_t tokens[] = {0};

    assert_int_equal(
        pick(&(struct inf_sampling){.temperature = 1e-40f}, logits, 4, tokens, 1, 1, NULL), 3);
    pick(&(struct inf_sampling){.temperature = 1e38f}, logits, 4, tokens, 1, 1, NULL);
}

TEST(logprobs_are_those_of_raw_logits)
{
    static float logits[MAX_V];
    struct inf_top_logprob top[SAMPLE_MAX_TOP];
    struct sampler *sampler;
    struct rng rng;
    double sum = 0;
    float lp;

    rng_seed(&rng, 9);
    fill_logits(&rng, logits, MAX_V, 10);
    logits[17] = logits[5] = 40;
    logits[MAX_V - 1] = 41; /* not a token of the vocabulary, but part of the sum */
    for (uint32_t i = 0; i < MAX_V; i++)
        sum += exp((double)logits[i]);
    ASSERT_OK(sampler_new(MAX_V - 10, MAX_V, &sampler));
    assert_int_equal(sampler_logprob(sampler, logits, MAX_V, 23, 20, &lp, top), 20);
    sampler_free(sampler);
    assert_true(fabs((double)lp - ((double)logits[23] - log(sum))) < 1e-5);
    assert_int_equal(top[0].token, 5);
    assert_int_equal(top[1].token, 17);
    for (uint32_t i = 1; i < 20; i++)
        assert_true(top[i].logprob <= top[i - 1].logprob);
    /* There are fewer tokens than were requested. */
    ASSERT_OK(sampler_new(3, 3, &sampler));
    assert_int_equal(sampler_logprob(sampler, logits, 3, -1, 20, &lp, top), 3);
    logits[1] = NAN;
    assert_int_equal(sampler_logprob(sampler, logits, 3, 0, 20, &lp, top), 0);
    sampler_free(sampler);
    assert_true(isnan(lp));
}

RUN_TESTS(cmocka_unit_test(each_stage_has_the_reference_distribution),
          cmocka_unit_test(greedy_takes_the_lowest_of_equals),
          cmocka_unit_test(repetition_penalty_sees_signs_window_and_prompt),
          cmocka_unit_test(presence_and_frequency_see_generated_tokens_alone),
          cmocka_unit_test(logit_bias_adds_and_forbids), cmocka_unit_test(rows_of_nan_are_reported),
          cmocka_unit_test(tiny_and_huge_temperatures_are_fine),
          cmocka_unit_test(logprobs_are_those_of_raw_logits))
