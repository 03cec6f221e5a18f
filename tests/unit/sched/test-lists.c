/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a device that returns lists of the largest logits gives the same results as a device
 * that returns whole rows. If the null device returns a list for a row, it fills the row itself
 * with NaN.
 */
#include "rig.h"

#include <math.h>

#define N_REQUESTS 1000

static struct outcome with[N_REQUESTS], without[N_REQUESTS];
static struct random_request requests[N_REQUESTS];

/* Makes logits of which many are equal and some are impossible (-infinity). */
static void stepped(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    struct rng rng;

    (void)data;
    rng_seed(&rng, row->history);
    for (uint32_t v = 0; v < n_vocab; v++) {
        logits[v] = (float)(rng_u32(&rng) % 64) * 0.25f;
        if (rng_u32(&rng) % 8 == 0)
            logits[v] = -INFINITY;
    }
}

/* Makes requests, most of which can be answered from lists. */
static void make_requests(uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct inf_sampling *s = &requests[i].q.sampling;

        random_request(&requests[i], seed * N_REQUESTS + i, 40, 20);
        if (rng_u32(&rng) % 4 == 0)
            continue;
        s->repetition_penalty = s->presence_penalty = 0;
        s->top_k = s->temperature > 0 ? 1 + rng_u32(&rng) % 70 : 0;
        s->min_p = rng_u32(&rng) % 4 == 0 ? 0.2f : 0;
        s->typical_p = rng_u32(&rng) % 4 == 0 ? 0.8f : 0;
    }
}

static struct null_counts run_all(const struct rig_params *params, struct outcome *outcomes)
{
    struct null_counts counts;
    struct rig rig;

    rig_init(&rig, params);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        outcomes[i] = (struct outcome){.n_choices = MAX(requests[i].q.n_choices, 1u)};
        requests[i].q.user = &outcomes[i];
        outcomes[i].id = rig_submit(&rig, &requests[i].q);
    }
    rig_finish(&rig, outcomes, N_REQUESTS);
    counts = null_count(rig.backend);
    rig_done(&rig);
    return counts;
}

static struct null_counts compare(struct rig_params params, uint64_t seed)
{
    struct null_counts counts;

    make_requests(seed);
    params.null.makes_lists = false;
    counts = run_all(&params, without);
    assert_int_equal(counts.n_lists + counts.n_fetched, 0);
    params.null.makes_lists = true;
    counts = run_all(&params, with);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        outcomes_close(&with[i], &without[i], 2e-3);
        outcome_done(&with[i]);
        outcome_done(&without[i]);
    }
    return counts;
}

TEST(lists_give_what_rows_give)
{
    for (uint64_t seed = 1; seed < 4; seed++) {
        const struct rig_params params = {.null = {.seed = seed}, .n_ctx = 100, .max_rows = 40};
        const struct null_counts counts = compare(params, seed);

        assert_true(counts.n_lists > 5000);
        assert_int_equal(counts.n_fetched, 0);
    }
}

TEST(equal_and_impossible_logits_change_nothing)
{
    for (uint64_t seed = 4; seed < 7; seed++) {
        const struct rig_params params = {.null = {.logits = stepped}, .n_ctx = 100};

        assert_true(compare(params, seed).n_lists > 5000);
    }
}

/* When the largest logits include entries that are not tokens, the engine fetches whole rows. */
TEST(rows_may_be_wider_than_the_vocabulary)
{
    for (uint64_t seed = 7; seed < 10; seed++) {
        const struct rig_params params = {
            .null = {.seed = seed}, .n_ctx = 100, .n_padding = 1 + 8 * (uint32_t)(seed - 7)};
        const struct null_counts counts = compare(params, seed);

        assert_true(counts.n_lists > 5000);
        assert_true(counts.n_fetched > 50 && counts.n_fetched < counts.n_lists);
    }
}

TEST(preemption_changes_nothing)
{
    const struct rig_params params = {.null = {.seed = 3}, .n_ctx = 64, .n_blocks = 20};

    compare(params, 11);
}

TEST(a_bad_row_is_a_bad_row)
{
    const struct rig_params params = {
        .null = {.has_nan_token = true, .nan_token = 'N', .makes_lists = true}};
    static const int32_t prompt[] = {1, 2, 'N'};
    struct outcome o = {.n_choices = 1};
    const struct inf_request q = {.tokens = prompt, .n_tokens = 3, .max_tokens = 10, .user = &o};
    struct rig rig;

    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    assert_int_equal(o.choices[0].finish, INF_FINISH_ERROR);
    ASSERT_STREQ(o.choices[0].error, "the model gave no usable probabilities");
    assert_int_equal(null_count(rig.backend).n_fetched, 1);
    rig_done(&rig);
}

RUN_TESTS(cmocka_unit_test(lists_give_what_rows_give),
          cmocka_unit_test(equal_and_impossible_logits_change_nothing),
          cmocka_unit_test(rows_may_be_wider_than_the_vocabulary),
          cmocka_unit_test(preemption_changes_nothing), cmocka_unit_test(a_bad_row_is_a_bad_row))
