/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares sampling from lists of the largest logits with sampling from whole rows. Equal random
 * numbers must give the same tokens, and log-probabilities may differ only by the rounding of the
 * sum.
 */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "sample/sampler.h"

#define MAX_ROW 400

static const float *sorted_row;

static int by_value(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    const float x = sorted_row[i], y = sorted_row[k];

    return x != y ? (x > y ? -1 : 1) : i - k;
}

/* Makes a list, and checks that it is as core/top.h defines it. */
static struct top_row list_of(const float *row, uint32_t n_row, uint32_t n_wanted)
{
    struct top_row list = {.n_wanted = n_wanted};
    int32_t ids[MAX_ROW];
    double sum = 0;

    for (uint32_t i = 0; i < n_row; i++) {
        ids[i] = (int32_t)i;
        if (isnan(row[i]))
            return list;
    }
    sorted_row = row;
    qsort(ids, n_row, sizeof(ids[0]), by_value);
    if (isinf(row[ids[0]]))
        return list;
    for (uint32_t i = 0; i < n_row; i++)
        sum += exp((double)row[i] - (double)row[ids[0]]);
    list.log_sum = log(sum);
    for (; list.n < MIN(n_wanted, n_row) && row[ids[list.n]] > -INFINITY; list.n++) {
        list.ids[list.n] = ids[list.n];
        list.values[list.n] = row[ids[list.n]];
    }
    return list;
}

/* Fills a row with multiples of 1/16, so that some values are equal; some rows are nearly empty. */
static void fill_row(struct rng *rng, float *row, uint32_t n)
{
    const bool stepped = rng_u32(rng) % 2, sparse = rng_u32(rng) % 4 == 0;
    const double spread = 1 + rng_double(rng) * 20;

    for (uint32_t i = 0; i < n; i++) {
        row[i] = (float)((rng_double(rng) + rng_double(rng) - 1) * spread);
        if (stepped)
            row[i] = roundf(row[i] * 16) / 16;
        if (sparse && rng_u32(rng) % 8)
            row[i] = -INFINITY;
    }
}

static struct inf_sampling random_sampling(struct rng *rng)
{
    /* The order of llama.cpp. */
    static const uint8_t late[] = {INF_STAGE_TOP_N_SIGMA, INF_STAGE_TOP_K, INF_STAGE_TYPICAL_P,
                                   INF_STAGE_TOP_P,       INF_STAGE_MIN_P, INF_STAGE_XTC,
                                   INF_STAGE_TEMPERATURE};
    struct inf_sampling s = {0};

    if (rng_u32(rng) % 4 == 0)
        return s;
    s.temperature = 0.1f + (float)rng_double(rng) * 2;
    s.top_k = 1 + rng_u32(rng) % TOP_MAX;
    s.top_p = rng_u32(rng) % 2 ? (float)rng_double(rng) : 0;
    s.min_p = rng_u32(rng) % 2 ? (float)rng_double(rng) * 0.3f : 0;
    s.typical_p = rng_u32(rng) % 3 == 0 ? (float)rng_double(rng) : 0;
    s.xtc_probability = rng_u32(rng) % 4 == 0 ? 0.5f : 0;
    s.xtc_threshold = 0.1f;
    if (rng_u32(rng) % 2) {
        s.order = late;
        s.n_order = ARRAY_SIZE(late);
    }
    return s;
}

struct picked {
    int status;
    int32_t token;
    float logprob;
    uint32_t n_top;
    struct inf_top_logprob top[SAMPLE_MAX_TOP];
    struct sample_state state;
};

static void pick_row(struct sampler *s, const struct sample_params *p, float *row, uint32_t n_row,
                     uint32_t n_top, struct picked *x)
{
    const struct sample_text text = {.tokens = (const int32_t[]){0}, .n_tokens = 1, .n_prompt = 1};

    x->status = sampler_pick(s, p, &text, &x->state, row, &x->token);
    if (x->status == 0)
        x->n_top = sampler_logprob(s, row, n_row, x->token, n_top, &x->logprob, x->top);
}

static void check_equal(const struct picked *a, const struct picked *b)
{
    assert_int_equal(a->token, b->token);
    if (a->state.draw)
        assert_memory_equal(a->state.draw, b->state.draw, sizeof(*a->state.draw));
    assert_true(fabsf(a->logprob - b->logprob) < 2e-5f);
    assert_int_equal(a->n_top, b->n_top);
    for (uint32_t i = 0; i < a->n_top; i++) {
        assert_int_equal(a->top[i].token, b->top[i].token);
        assert_true(fabsf(a->top[i].logprob - b->top[i].logprob) < 2e-5f);
    }
}

/* Returns whether the list was sufficient. */
static bool check_one(struct rng *rng, uint64_t seed)
{
    const uint32_t n_row = 1 + rng_u32(rng) % MAX_ROW;
    const uint32_t n_vocab = rng_u32(rng) % 2 ? n_row : 1 + rng_u32(rng) % n_row;
    const struct inf_sampling sampling = random_sampling(rng);
    const uint32_t n_top = rng_u32(rng) % 2 ? rng_u32(rng) % (SAMPLE_MAX_TOP + 1) : 0;
    struct picked a = {0}, b = {0};
    struct sample_params p;
    struct sampler *s;
    struct top_row list;
    float row[MAX_ROW];
    uint32_t n_need;
    bool enough;

    fill_row(rng, row, n_row);
    ASSERT_OK(sampler_new(n_vocab, n_row, &s));
    ASSERT_OK(sample_params_init(&p, &sampling));
    sample_state_init(&a.state, &p, seed);
    b.state = a.state;
    ASSERT_OK(sample_state_start(&a.state, &p, 1));
    ASSERT_OK(sample_state_start(&b.state, &p, 1));
    pick_row(s, &p, row, n_row, n_top, &a);
    n_need = sampler_list_need(s, &p, n_top);
    assert_int_equal(n_need == 0, sampling.top_k >= n_vocab && sampling.top_k > 0);
    list = list_of(row, n_row, n_need);
    enough = n_need > 0 && sampler_list_suffices(s, &list);
    if (enough) {
        assert_int_equal(a.status, 0);
        b.token = sampler_pick_from_list(s, &p, &b.state, &list);
        b.n_top = sampler_logprob_from_list(s, &list, b.token, n_top, &b.logprob, b.top);
        check_equal(&a, &b);
    } else if (n_need > 0) {
        assert_true(n_vocab < n_row || a.status == SAMPLE_BAD_ROW);
    }
    sample_state_stop(&a.state);
    sample_state_stop(&b.state);
    sample_params_done(&p);
    sampler_free(s);
    return enough;
}

TEST(a_list_picks_what_the_row_picks)
{
    uint32_t n_enough = 0;
    struct rng rng;

    rng_seed(&rng, 21);
    for (uint64_t i = 0; i < 20000; i++)
        n_enough += check_one(&rng, i);
    assert_true(n_enough > 10000);
}

static uint32_t need(const struct inf_sampling *in, uint32_t n_top)
{
    struct sample_params p;
    struct sampler *s;
    uint32_t n;

    ASSERT_OK(sampler_new(1000, 1000, &s));
    ASSERT_OK(sample_params_init(&p, in));
    n = sampler_list_need(s, &p, n_top);
    sample_params_done(&p);
    sampler_free(s);
    return n;
}

TEST(choices_that_need_the_whole_row_say_so)
{
    const struct inf_logit_bias bias = {3, 1};

    assert_int_equal(need(&(struct inf_sampling){0}, 0), 1);
    assert_int_equal(need(&(struct inf_sampling){0}, 20), 20);
    assert_int_equal(need(&(struct inf_sampling){.temperature = 1, .top_k = 64}, 20), 64);
    assert_int_equal(need(&(struct inf_sampling){.temperature = 1, .top_k = 5}, 20), 20);
    assert_int_equal(need(&(struct inf_sampling){.temperature = 1, .top_k = 65}, 0), 0);
    assert_int_equal(need(&(struct inf_sampling){.temperature = 1}, 0), 0);
    assert_int_equal(need(&(struct inf_sampling){.temperature = 1, .typical_p = 0.5f}, 0), 0);
    assert_int_equal(
        need(&(struct inf_sampling){.repetition_penalty = 1.1f, .penalty_last_n = 64}, 0), 0);
    assert_int_equal(need(&(struct inf_sampling){.repetition_penalty = 1.1f}, 0),
                     need(&(struct inf_sampling){0}, 0));
    assert_int_equal(need(&(struct inf_sampling){.presence_penalty = 0.1f}, 0), 0);
    assert_int_equal(need(&(struct inf_sampling){.frequency_penalty = 0.1f}, 0), 0);
    assert_int_equal(need(&(struct inf_sampling){.logit_bias = &bias, .n_logit_bias = 1}, 0), 0);
}

static bool suffices(uint32_t n_vocab, const float *row, uint32_t n_row, uint32_t n_wanted)
{
    const struct top_row list = list_of(row, n_row, n_wanted);
    struct sampler *s;
    bool enough;

    ASSERT_OK(sampler_new(n_vocab, n_row, &s));
    enough = sampler_list_suffices(s, &list);
    sampler_free(s);
    return enough;
}

TEST(insufficient_lists_are_reported)
{
    assert_true(suffices(3, (const float[]){1, 3, 2}, 3, 2));
    assert_true(suffices(3, (const float[]){1, -INFINITY, -INFINITY}, 3, 2));
    /* The third entry is not a token. */
    assert_true(suffices(2, (const float[]){3, 2, 1}, 3, 2));
    assert_false(suffices(2, (const float[]){3, 1, 2}, 3, 2));
    assert_false(suffices(2, (const float[]){1, 2, 3}, 3, 1));
    assert_true(suffices(2, (const float[]){1, -INFINITY, 3}, 3, 3));
    assert_false(suffices(2, (const float[]){-INFINITY, -INFINITY, 3}, 3, 2));
    /* The rows have NaN, infinity, or only -infinity. */
    assert_false(suffices(2, (const float[]){1, NAN}, 2, 1));
    assert_false(suffices(2, (const float[]){1, INFINITY}, 2, 1));
    assert_false(suffices(2, (const float[]){-INFINITY, -INFINITY}, 2, 1));
}

RUN_TESTS(cmocka_unit_test(a_list_picks_what_the_row_picks),
          cmocka_unit_test(choices_that_need_the_whole_row_say_so),
          cmocka_unit_test(insufficient_lists_are_reported))
