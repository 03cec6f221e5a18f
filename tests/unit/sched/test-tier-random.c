/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs thousands of random requests on successive engines that share one tier, a store of KV blocks
 * outside of the engines. The pools of the engines are so small that most blocks are only in the
 * tier. Each request must give the same result as without a tier.
 */
#include "fake_tier.h"
#include "rig.h"

enum { N_AT_ONCE = 40 };

static bool was_cancelled(const struct outcome *o)
{
    for (uint32_t i = 0; i < o->n_choices; i++)
        if (o->choices[i].finish == INF_FINISH_CANCELLED)
            return true;
    return false;
}

static struct outcome outcomes[N_AT_ONCE], expected[N_AT_ONCE];
static struct random_request requests[N_AT_ONCE];

static uint64_t run_round(struct rig *rig, struct rig *without, struct rng *rng, uint64_t seed)
{
    uint64_t n_cached = 0;

    for (uint32_t i = 0; i < N_AT_ONCE; i++) {
        struct inf_request *q = &requests[i].q;

        family_request(&requests[i], seed + i);
        outcomes[i] = expected[i] = (struct outcome){.n_choices = MAX(q->n_choices, 1u)};
        q->user = &outcomes[i];
        outcomes[i].id = rig_submit(rig, q);
        q->user = &expected[i];
        expected[i].id = rig_submit(without, q);
        for (uint32_t k = rng_u32(rng) % 4; k > 0; k--)
            rig_tick(rig);
        if (rng_u32(rng) % 8 == 0)
            sched_cancel(rig->sched, outcomes[rng_u32(rng) % (i + 1)].id);
        rig_collect(rig, outcomes, N_AT_ONCE);
    }
    rig_finish(rig, outcomes, N_AT_ONCE);
    rig_finish(without, expected, N_AT_ONCE);
    for (uint32_t i = 0; i < N_AT_ONCE; i++) {
        n_cached += outcomes[i].choices[0].n_cached;
        if (!was_cancelled(&outcomes[i]))
            outcomes_equal(&outcomes[i], &expected[i]);
        outcome_done(&outcomes[i]);
        outcome_done(&expected[i]);
    }
    return n_cached;
}

/* Runs random requests on successive engines that share one tier. */
static void check_random(const struct rig_params *params, struct fake_tier *tier, uint32_t n_rounds)
{
    struct rig_params plain = {
        .null = params->null, .n_ctx = params->n_ctx, .no_prefix_cache = true};
    struct tier_counts counts;
    struct rig rig, without;
    uint64_t n_cached = 0, n_loaded = 0;
    struct rng rng;

    plain.null.lose_one_in = 0;
    rng_seed(&rng, params->null.seed);
    rig_init(&without, &plain);
    for (uint32_t round = 0; round < n_rounds; round++) {
        if (round % 10 == 0)
            rig_init(&rig, params);
        n_cached +=
            run_round(&rig, &without, &rng, params->null.seed << 32 | (uint64_t)round * N_AT_ONCE);
        if (round % 10 < 9 && round + 1 < n_rounds)
            continue;
        tier_count(rig.sched->tier, &counts);
        n_loaded += counts.n_loaded;
        assert_int_equal(rig.sched->stats.n_errors, 0);
        rig_done(&rig);
    }
    rig_done(&without);
    assert_true(n_cached > (uint64_t)n_rounds * N_AT_ONCE);
    assert_true(n_loaded > n_rounds);
    assert_true(tier->n_put_blocks > n_rounds);
}

TEST(ten_thousand_requests_over_a_tier)
{
    for (uint32_t i = 0; i < 5; i++) {
        struct fake_tier tier;
        const struct rig_params params = {.null = {.seed = 1 + i},
                                          .n_ctx = 100,
                                          .n_blocks = 25 + 7 * i,
                                          .max_rows = 8 + 8 * i,
                                          .max_seqs = 3 + i,
                                          .tier = &tier.base};

        fake_tier_init(&tier, i);
        check_random(&params, &tier, test_rounds(50));
        assert_int_equal(tier.n_rejects, 0);
        fake_tier_done(&tier);
    }
}

TEST(blocks_that_must_be_copied_are_copied_in_parts)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct fake_tier tier;
        const struct rig_params params = {.null = {.seed = 20 + i, .lose_one_in = i / 2 * 200},
                                          .n_ctx = 100,
                                          .n_blocks = 25 + 7 * i,
                                          .max_rows = 40,
                                          .takes_copies = true,
                                          .tier = &tier.base};

        fake_tier_init(&tier, i);
        if (i % 2)
            tier.lies = (struct fake_lies){
                .wrong_byte = 30, .short_stream = 30, .count = 10, .fail_find = 5000, .forget = 10};
        check_random(&params, &tier, 12);
        assert_int_equal(tier.n_rejects > 0, i % 2);
        fake_tier_done(&tier);
    }
}

TEST(ten_thousand_requests_over_a_faulty_tier)
{
    for (uint32_t i = 0; i < 5; i++) {
        struct fake_tier tier;
        const struct rig_params params = {.null = {.seed = 10 + i, .lose_one_in = i % 2 * 200},
                                          .n_ctx = 100,
                                          .n_blocks = 25 + 7 * i,
                                          .max_rows = 40,
                                          .tier = &tier.base};

        fake_tier_init(&tier, i);
        tier.lies = (struct fake_lies){
            .wrong_byte = 30,
            .wrong_sum = 30,
            .short_stream = 30,
            .wrong_size = 30,
            .fail_read = 30,
            .other_block = 30,
            .count = 10,
            .fail_find = 5000,
            .fail_put = 500,
            .half_put = 500,
            .forget = 10,
        };
        check_random(&params, &tier, test_rounds(50));
        assert_true(tier.n_rejects > 0);
        fake_tier_done(&tier);
    }
}

RUN_TESTS(cmocka_unit_test(ten_thousand_requests_over_a_tier),
          cmocka_unit_test(ten_thousand_requests_over_a_faulty_tier),
          cmocka_unit_test(blocks_that_must_be_copied_are_copied_in_parts))
