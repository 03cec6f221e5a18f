/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs thousands of random requests on successive engines that share one tier, a store of KV blocks
 * outside of the engines. The pools of the engines are so small that most blocks are only in the
 * tier. Each request must give the same result as without a tier.
 */
#include "fake_tier.h"
#include "rig.h"

/* Runs random requests on successive engines that share one tier. */
static void check_random(const struct rig_params *params, struct fake_tier *tier, uint32_t n_rounds)
{
    const struct rig_totals totals = rig_random(params, n_rounds);

    assert_true(totals.n_cached > (uint64_t)n_rounds * RIG_AT_ONCE);
    assert_true(totals.n_loaded > n_rounds);
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
