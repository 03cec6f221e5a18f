/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the stages of sampling with a reference that keeps a sorted list of probabilities and
 * follows the formulas of llama.cpp. The probabilities after the last stage are compared, so the
 * tests need no statistics.
 */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "sample/sampler.h"

#define N_VOCAB 20

/* The reference: tokens in descending order of their logits. */
struct ref {
    struct {
        double logit, p;
        int32_t id;
    } list[N_VOCAB];
    uint32_t n;
};

static void ref_softmax(struct ref *r)
{
    double sum = 0;

    for (uint32_t i = 0; i < r->n; i++)
        sum += r->list[i].p = exp(r->list[i].logit - r->list[0].logit);
    for (uint32_t i = 0; i < r->n; i++)
        r->list[i].p /= sum;
}

static void ref_init(struct ref *r, const float *logits)
{
    r->n = 0;
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        uint32_t at = r->n;

        if (logits[i] == -INFINITY)
            continue;
        r->n++;
        for (; at > 0 && r->list[at - 1].logit < (double)logits[i]; at--)
            r->list[at] = r->list[at - 1];
        r->list[at].logit = (double)logits[i];
        r->list[at].id = (int32_t)i;
    }
}

static void ref_temperature(struct ref *r, const struct inf_sampling *s)
{
    double t = (double)s->temperature;

    if (s->dynatemp_range > 0) {
        const double low = fmax(t - (double)s->dynatemp_range, 0);
        const double high = t + (double)s->dynatemp_range;
        double entropy = 0;

        if (r->n < 2)
            return;
        ref_softmax(r);
        for (uint32_t i = 0; i < r->n; i++)
            if (r->list[i].p > 0)
                entropy -= r->list[i].p * log(r->list[i].p);
        t = low + (high - low) * pow(entropy / -log(1.0 / r->n),
                                     s->dynatemp_exponent > 0 ? (double)s->dynatemp_exponent : 1);
    }
    for (uint32_t i = 0; i < r->n; i++)
        r->list[i].logit /= t;
}

static void ref_top_n_sigma(struct ref *r, double n_sigma)
{
    double mean = 0, square = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        mean += r->list[i].logit / r->n;
    for (uint32_t i = 0; i < r->n; i++)
        square += pow(r->list[i].logit - mean, 2) / r->n;
    while (n < r->n && r->list[n].logit >= r->list[0].logit - n_sigma * sqrt(square))
        n++;
    r->n = n;
}

static void ref_top_p(struct ref *r, double p, uint32_t least)
{
    double sum = 0;

    ref_softmax(r);
    for (uint32_t i = 0; i < r->n; i++) {
        sum += r->list[i].p;
        if (sum >= p && i + 1 >= least) {
            r->n = i + 1;
            return;
        }
    }
}

static void ref_min_p(struct ref *r, double p, uint32_t least)
{
    uint32_t n = 0;

    ref_softmax(r);
    while (n < r->n && (r->list[n].p >= p * r->list[0].p || n < least))
        n++;
    r->n = n;
}

static void ref_xtc(struct ref *r, double threshold, uint32_t least)
{
    uint32_t last = 0;

    ref_softmax(r);
    for (uint32_t i = 0; i < r->n && r->list[i].p >= threshold; i++)
        last = i;
    if (last == 0 || r->n - last < least)
        return;
    r->n -= last;
    memmove(r->list, r->list + last, r->n * sizeof(r->list[0]));
}

static void ref_stage(struct ref *r, const struct inf_sampling *s, enum inf_stage stage)
{
    if (stage == INF_STAGE_TEMPERATURE)
        ref_temperature(r, s);
    else if (stage == INF_STAGE_TOP_N_SIGMA && s->top_n_sigma > 0)
        ref_top_n_sigma(r, (double)s->top_n_sigma);
    else if (stage == INF_STAGE_TOP_K && s->top_k > 0)
        r->n = MIN(r->n, s->top_k);
    else if (stage == INF_STAGE_TOP_P && s->top_p > 0)
        ref_top_p(r, (double)s->top_p, s->min_keep);
    else if (stage == INF_STAGE_MIN_P && s->min_p > 0)
        ref_min_p(r, (double)s->min_p, s->min_keep);
    else if (stage == INF_STAGE_XTC && s->xtc_probability > 0 && s->xtc_threshold <= 0.5f)
        ref_xtc(r, (double)s->xtc_threshold, s->min_keep);
}

/* The result of one pick, with the probabilities of all tokens that remained. */
struct picked {
    int32_t token;
    float logprob;
    struct inf_top_logprob top[N_VOCAB];
    uint32_t n_top;
};

static void pick(const struct sample_params *p, struct sample_state *ss, const float *logits,
                 struct picked *ret_picked)
{
    static const int32_t tokens[] = {0};
    const struct sample_text text = {.tokens = tokens, .n_tokens = 1, .n_prompt = 1};
    float row[N_VOCAB];
    struct sampler *sampler;

    memcpy(row, logits, sizeof(row));
    ASSERT_OK(sampler_new(N_VOCAB, N_VOCAB, &sampler));
    assert_int_equal(sampler_pick(sampler, p, &text, ss, row, &ret_picked->token), 0);
    assert_memory_equal(row, logits, sizeof(row));
    ret_picked->n_top =
        sampler_post_logprob(sampler, N_VOCAB, &ret_picked->logprob, ret_picked->top);
    sampler_free(sampler);
}

static void compare(const struct picked *x, struct ref *r)
{
    bool found = false;

    ref_softmax(r);
    assert_int_equal(x->n_top, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        assert_int_equal(x->top[i].token, r->list[i].id);
        assert_true(fabs(exp((double)x->top[i].logprob) - r->list[i].p) < 1e-5);
        if (x->token != r->list[i].id)
            continue;
        found = true;
        assert_true(x->logprob == x->top[i].logprob);
    }
    assert_true(found);
}

static void check(const struct inf_sampling *s, uint64_t seed)
{
    static const uint8_t usual[] = {0, 1, 2, 3, 4, 5, 6};
    const uint8_t *order = s->order ? s->order : usual;
    struct sample_state ss;
    struct sample_params p;
    struct picked picked;
    float logits[N_VOCAB];
    struct ref ref;
    struct rng rng;

    ASSERT_OK(sample_params_init(&p, s));
    p.post_logprobs = true;
    sample_state_init(&ss, &p, seed);
    ASSERT_OK(sample_state_start(&ss, &p, 1));
    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < N_VOCAB; i++)
        logits[i] = (float)(rng_double(&rng) + rng_double(&rng)) * 4 - 3;
    logits[seed % N_VOCAB] = -INFINITY;
    ref_init(&ref, logits);
    for (size_t i = 0; i < (s->order ? s->n_order : sizeof(usual)); i++)
        ref_stage(&ref, s, order[i]);
    pick(&p, &ss, logits, &picked);
    compare(&picked, &ref);
    sample_state_stop(&ss);
    sample_params_done(&p);
}

TEST(stages_and_orders_are_those_of_the_reference)
{
    /* llama.cpp applies the temperature last. */
    static const uint8_t late[] = {INF_STAGE_TOP_N_SIGMA, INF_STAGE_TOP_K, INF_STAGE_TOP_P,
                                   INF_STAGE_MIN_P,       INF_STAGE_XTC,   INF_STAGE_TEMPERATURE};
    static const uint8_t few[] = {INF_STAGE_MIN_P, INF_STAGE_TOP_K};
    static const struct inf_sampling kinds[] = {
        {.temperature = 0.7f},
        {.temperature = 1, .top_n_sigma = 1},
        {.temperature = 2, .top_n_sigma = 0.5f},
        {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.1f},
        {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.05f, .min_keep = 18},
        {.temperature = 0.3f, .xtc_probability = 1, .xtc_threshold = 0.02f, .top_k = 9},
        {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.6f},
        {.temperature = 0.01f, .xtc_probability = 1},
        {.temperature = 1, .dynatemp_range = 0.5f},
        {.temperature = 0.5f, .dynatemp_range = 2, .dynatemp_exponent = 1.7f, .top_p = 0.8f},
        {.temperature = 1, .top_p = 0.2f, .min_keep = 5},
        {.temperature = 1, .min_p = 0.7f, .min_keep = 4},
        {.temperature = 3, .top_k = 12, .top_p = 0.8f, .min_p = 0.1f, .order = late, .n_order = 6},
        {.temperature = 0.5f,
         .top_n_sigma = 1.5f,
         .top_p = 0.9f,
         .xtc_probability = 1,
         .xtc_threshold = 0.12f,
         .order = late,
         .n_order = 6},
        {.temperature = 9, .top_k = 3, .min_p = 0.2f, .top_p = 0.1f, .order = few, .n_order = 2},
        {.temperature = 9, .top_k = 3, .order = few, .n_order = 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        for (uint64_t seed = 0; seed < 50; seed++)
            check(&kinds[i], seed);
}

static const char *infill_text(const void *data, int32_t token, size_t *ret_len)
{
    const char *const *texts = data;

    *ret_len = strlen(texts[token]);
    return texts[token];
}

/* Gives token i a probability proportional to shares[i], and checks which tokens remain after the
 * stage infill, and in which order. The tokens 3 and 4 end the text. */
static void check_infill(const int *shares, const char *expected)
{
    static const char *const texts[N_VOCAB] = {"hel", "hell", "hello", "",  "",
                                               "x",   "y",    "z",     "w", "v"};
    static const int32_t ends[] = {3, 4};
    static const uint8_t order[] = {INF_STAGE_TOP_K, INF_STAGE_INFILL};
    const struct inf_sampling s = {
        .temperature = 1, .top_k = N_VOCAB, .order = order, .n_order = 2};
    struct str got = {};
    struct sample_state ss;
    struct sample_params p;
    struct picked picked;
    float logits[N_VOCAB];

    for (uint32_t i = 0; i < N_VOCAB; i++)
        logits[i] = i < 10 && shares[i] > 0 ? logf((float)shares[i]) : -INFINITY;
    ASSERT_OK(sample_params_init(&p, &s));
    p.post_logprobs = true;
    p.vocab = (struct sample_vocab){ends, 2, infill_text, texts};
    sample_state_init(&ss, &p, 1);
    ASSERT_OK(sample_state_start(&ss, &p, 1));
    pick(&p, &ss, logits, &picked);
    sample_state_stop(&ss);
    for (uint32_t i = 0; i < picked.n_top; i++)
        ASSERT_OK(str_printf(&got, "%d ", picked.top[i].token));
    assert_string_equal(got.data, expected);
    str_done(&got);
    sample_params_done(&p);
}

TEST(text_in_the_middle_ends_early)
{
    check_infill((const int[10]){50, 20, 10, 0, 0, 10, 10}, "0 ");
    check_infill((const int[10]){10, 20, 10, 0, 0, 36, 24}, "5 1 ");
    check_infill((const int[10]){40, 0, 0, 9, 0, 31, 20}, "3 ");
    check_infill((const int[10]){41, 0, 0, 2, 0, 39, 18}, "0 5 3 ");
    check_infill((const int[10]){0, 0, 0, 0, 0, 99, 1}, "5 ");
    check_infill((const int[10]){0, 0, 0, 60, 40}, "3 4 ");
    check_infill((const int[10]){18, 0, 0, 1, 0, 17, 17, 16, 16, 15}, "3 ");
    check_infill((const int[10]){18, 0, 0, 0, 0, 17, 17, 17, 16, 15}, "0 ");
}

TEST(xtc_acts_as_often_as_its_probability_says)
{
    const struct inf_sampling s = {
        .temperature = 1, .xtc_probability = 0.3f, .xtc_threshold = 0.1f};
    float logits[N_VOCAB] = {2, 2.1f, 2.2f};
    struct sample_state ss;
    struct sample_params p;
    struct picked picked;
    uint32_t n = 0;

    ASSERT_OK(sample_params_init(&p, &s));
    p.post_logprobs = true;
    sample_state_init(&ss, &p, 1);
    ASSERT_OK(sample_state_start(&ss, &p, 1));
    for (uint32_t i = 0; i < 2000; i++) {
        pick(&p, &ss, logits, &picked);
        n += picked.n_top < N_VOCAB;
    }
    assert_in_range(n, 520, 680);
    sample_state_stop(&ss);
    sample_params_done(&p);
}

/* Returns how many tokens Mirostat 1 keeps. */
static uint32_t ref_zipf(const struct ref *r, double mu)
{
    double sum_tb = 0, sum_tt = 0, s, k;

    for (uint32_t i = 0; i < 99 && i < r->n - 1; i++) {
        const double t = log((i + 2.0) / (i + 1.0));

        sum_tb += t * log(r->list[i].p / r->list[i + 1].p);
        sum_tt += t * t;
    }
    s = sum_tb / sum_tt;
    k = pow((s - 1) * pow(2, mu) / (1 - pow(N_VOCAB, 1 - s)), 1 / s);
    return k >= 1 ? (uint32_t)fmin(k, r->n) : 1;
}

static uint32_t ref_surprise(const struct ref *r, double mu)
{
    uint32_t n = 0;

    while (n < r->n && -log2(r->list[n].p) <= mu)
        n++;
    return MAX(n, 1u);
}

static void check_mirostat(uint32_t version, uint64_t seed)
{
    const struct inf_sampling s = {.temperature = 0.9f,
                                   .mirostat = version,
                                   .mirostat_tau = 1.5f,
                                   .mirostat_eta = 0.2f,
                                   .top_k = 1}; /* without effect */
    struct sample_state ss;
    struct sample_params p;
    double mu = 3;
    struct rng rng;

    ASSERT_OK(sample_params_init(&p, &s));
    p.post_logprobs = true;
    sample_state_init(&ss, &p, seed);
    ASSERT_OK(sample_state_start(&ss, &p, 1));
    rng_seed(&rng, seed);
    for (uint32_t round = 0; round < 100; round++) {
        struct picked picked;
        float logits[N_VOCAB];
        struct ref ref;

        for (uint32_t i = 0; i < N_VOCAB; i++)
            logits[i] = (float)(rng_double(&rng) + rng_double(&rng)) * 4 - 3;
        ref_init(&ref, logits);
        ref_temperature(&ref, &s);
        ref_softmax(&ref);
        ref.n = version == 1 ? ref_zipf(&ref, mu) : ref_surprise(&ref, mu);
        pick(&p, &ss, logits, &picked);
        compare(&picked, &ref);
        mu -= 0.2 * (-log2(exp((double)picked.logprob)) - 1.5);
        assert_true(fabs((double)ss.mu - mu) < 1e-4);
    }
    sample_state_stop(&ss);
    sample_params_done(&p);
}

TEST(mirostat_keeps_the_surprise_near_its_target)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        check_mirostat(1, seed);
        check_mirostat(2, seed);
    }
}

TEST(masks_and_forbidden_tokens_come_first)
{
    const struct inf_sampling kinds[] = {
        {.temperature = 0},
        {.temperature = 1},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1, .top_k = 5},
        {.temperature = 1, .xtc_probability = 1},
        {.temperature = 1, .repetition_penalty = 1.1f, .penalty_last_n = 64}};
    const uint32_t mask[] = {1u << 4 | 1u << 7 | 1u << 9};
    const int32_t forbidden[] = {7, 200, -1};
    const struct inf_logit_bias bias[] = {{3, 100}, {9, -100}};
    float row[N_VOCAB];
    struct sampler *sampler;

    for (uint32_t i = 0; i < N_VOCAB; i++)
        row[i] = (float)(i % 5);
    ASSERT_OK(sampler_new(N_VOCAB, N_VOCAB, &sampler));
    for (size_t i = 0; i < ARRAY_SIZE(kinds) * 2; i++) {
        struct inf_sampling s = kinds[i / 2];
        struct sample_text text = {.tokens = (const int32_t[]){3},
                                   .n_tokens = 1,
                                   .mask = mask,
                                   .forbidden = forbidden,
                                   .n_forbidden = 3};
        struct sample_state ss;
        struct sample_params p;
        int32_t token = -1;

        if (i % 2) {
            s.logit_bias = bias;
            s.n_logit_bias = 2;
        }
        ASSERT_OK(sample_params_init(&p, &s));
        sample_state_init(&ss, &p, i);
        ASSERT_OK(sample_state_start(&ss, &p, 1));
        for (unsigned k = 0; k < 20; k++) {
            assert_int_equal(sampler_pick(sampler, &p, &text, &ss, row, &token), 0);
            assert_true(token == 4 || (token == 9 && i % 2 == 0));
        }
        text.mask = (const uint32_t[]){1u << 7};
        assert_int_equal(sampler_pick(sampler, &p, &text, &ss, row, &token), SAMPLE_NONE_LEFT);
        sample_state_stop(&ss);
        sample_params_done(&p);
    }
    for (uint32_t i = 0; i < N_VOCAB; i++)
        assert_true(row[i] == (float)(i % 5));
    sampler_free(sampler);
}

RUN_TESTS(cmocka_unit_test(stages_and_orders_are_those_of_the_reference),
          cmocka_unit_test(text_in_the_middle_ends_early),
          cmocka_unit_test(xtc_acts_as_often_as_its_probability_says),
          cmocka_unit_test(mirostat_keeps_the_surprise_near_its_target),
          cmocka_unit_test(masks_and_forbidden_tokens_come_first))
