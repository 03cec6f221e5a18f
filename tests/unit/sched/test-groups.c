/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests models with several groups of state: windowed attention and recurrent state beside full
 * attention. Whatever is evicted, preempted, canceled, lost or loaded from a tier, each text must
 * equal that of an engine without a cache. The logits of the null device reveal every wrong block
 * and snapshot.
 */
#include "fake_tier.h"
#include "rig.h"

static bool has_chain(const struct rig_groups *groups)
{
    for (uint32_t g = 0; g < groups->n; g++)
        if (groups->groups[g].rule == STATE_FULL)
            return true;
    return false;
}

#define ENOUGH_ROUNDS 10

/* Returns the number of blocks that were loaded. */
static uint64_t check_random(const struct rig_params *params, uint32_t n_rounds)
{
    const struct rig_totals totals = rig_random(params, n_rounds);

    /* Without FULL groups, it is not known which prefixes are shared. A small number of rounds, as
     * with sanitizers, may share none. */
    if (n_rounds >= ENOUGH_ROUNDS &&
        totals.n_cached <= (has_chain(params->groups) ? n_rounds * RIG_AT_ONCE / 4 : n_rounds))
        fail_msg("%s: only %llu tokens were cached", params->groups->name,
                 (unsigned long long)totals.n_cached);
    return totals.n_loaded;
}

TEST(texts_do_not_depend_on_the_pool)
{
    for (uint32_t k = 0; k < rig_n_groups; k++)
        for (uint32_t i = 0; i < 3; i++) {
            const struct rig_params params = {.null = {.seed = 100 * k + i},
                                              .groups = &rig_groups[k],
                                              .mark_every = 5,
                                              .n_ctx = 100,
                                              .n_blocks = 25 + 9 * i,
                                              .max_rows = 8 + 16 * i,
                                              .max_seqs = 3 + 2 * i};

            check_random(&params, test_rounds(20));
        }
}

TEST(texts_survive_losses_of_the_device)
{
    for (uint32_t k = 0; k < rig_n_groups; k++) {
        const struct rig_params params = {
            .null = {.seed = 1000 + k, .lose_one_in = 200, .makes_lists = k % 2},
            .groups = &rig_groups[k],
            .n_padding = k % 2 * 9,
            .n_ctx = 100,
            .n_blocks = 60,
            .max_rows = 40};

        check_random(&params, test_rounds(20));
    }
}

TEST(texts_do_not_depend_on_a_tier)
{
    uint64_t n_rejects = 0;

    for (uint32_t k = 0; k < rig_n_groups; k++) {
        /* The engine computes a block where reading it seems slower, so the number of blocks that
         * one engine loads depends on the machine. */
        uint64_t n_loaded = 0;

        for (uint32_t i = 0; i < 3; i++) {
            struct fake_tier tier;
            const struct rig_params params = {
                .null = {.seed = 2000 + 10 * k + i, .lose_one_in = i == 2 ? 200 : 0},
                .groups = &rig_groups[k],
                .mark_every = 5,
                .n_ctx = 100,
                .n_blocks = 30 + 9 * i,
                .max_rows = 8 + 16 * i,
                .max_seqs = 4 + i,
                .takes_copies = i == 1,
                .tier = &tier.base};

            fake_tier_init(&tier, 10 * k + i);
            if (i == 2)
                tier.lies = (struct fake_lies){
                    .wrong_byte = 60,
                    .wrong_sum = 60,
                    .short_stream = 60,
                    .wrong_size = 60,
                    .fail_read = 60,
                    .count = 10,
                    .fail_find = 5000,
                    .fail_put = 500,
                    .half_put = 500,
                    .forget = 50,
                };
            n_loaded += check_random(&params, test_rounds(20));
            n_rejects += tier.n_rejects;
            assert_true(i == 2 || tier.n_rejects == 0);
            fake_tier_done(&tier);
        }
        if (n_loaded <= test_rounds(20))
            fail_msg("%s: only %llu blocks were loaded", rig_groups[k].name,
                     (unsigned long long)n_loaded);
    }
    assert_true(n_rejects > 0);
}

/* Runs one request to its end; returns the number of prompt rows that were computed. */
static uint64_t run(struct rig *rig, const struct inf_request *q, struct outcome *o)
{
    const uint64_t before = rig->sched->stats.n_prompt_tokens;
    struct inf_request copy = *q;

    *o = (struct outcome){.n_choices = MAX(q->n_choices, 1u)};
    copy.user = o;
    o->id = rig_submit(rig, &copy);
    rig_finish(rig, o, 1);
    return rig->sched->stats.n_prompt_tokens - before;
}

/* Runs @n_turns turns of a conversation. Each turn computes its own tokens, the last token of the
 * previous answer, which was never computed, and at most one block that was not full. */
static void check_turns(struct rig *rig, uint32_t n_turns)
{
    int32_t tokens[400];
    struct inf_request q = family_prompt(tokens, 30, 7, 30, 0);
    uint32_t n_computed = 0;

    for (uint32_t turn = 0; turn < n_turns; turn++) {
        struct outcome o;
        const uint64_t n_rows = run(rig, &q, &o);
        const uint32_t n_new = (uint32_t)q.n_tokens - n_computed;

        if (n_rows > n_new + 4)
            fail_msg("turn %u computed %u rows of %u new tokens", turn, (unsigned)n_rows, n_new);
        memcpy(tokens + q.n_tokens, o.choices[0].ids.data, o.choices[0].ids.len);
        n_computed = (uint32_t)q.n_tokens + 9;
        q.n_tokens += 10 + 13;
        for (uint32_t i = n_computed + 1; i < q.n_tokens; i++)
            tokens[i] = 'a' + (int32_t)(i % 20);
        outcome_done(&o);
    }
}

TEST(the_next_turn_computes_only_new_tokens)
{
    for (uint32_t k = 0; k < rig_n_groups; k++) {
        const struct rig_params params = {.groups = &rig_groups[k], .n_ctx = 400};
        struct rig rig;

        rig_init(&rig, &params);
        check_turns(&rig, 8);
        rig_done(&rig);
    }
}

/* A new engine loads the end of the text that an earlier engine stored, and computes only the new
 * tokens. */
TEST(the_next_turn_on_a_new_engine_computes_only_new_tokens)
{
    for (uint32_t k = 0; k < rig_n_groups; k++) {
        struct fake_tier tier;
        const struct rig_params params = {
            .groups = &rig_groups[k], .n_ctx = 400, .tier = &tier.base};
        int32_t tokens[200];
        struct inf_request q = family_prompt(tokens, 100, 7, 100, 0);
        struct outcome o;
        struct rig rig;

        fake_tier_init(&tier, k);
        rig_init(&rig, &params);
        assert_int_equal(run(&rig, &q, &o), 100);
        rig_done(&rig);
        memcpy(tokens + 100, o.choices[0].ids.data, o.choices[0].ids.len);
        outcome_done(&o);
        q.n_tokens = 120;
        for (uint32_t i = 110; i < 120; i++)
            tokens[i] = 'b';
        rig_init(&rig, &params);
        assert_int_equal(run(&rig, &q, &o), 120 - 108);
        rig_done(&rig);
        outcome_done(&o);
        fake_tier_done(&tier);
    }
}

/* While a long text is computed, a WINDOW group uses no more blocks than the window and one step
 * need. */
TEST(windows_use_little_memory)
{
    for (uint32_t k = 0; k < rig_n_groups; k++) {
        const struct rig_params params = {.groups = &rig_groups[k], .n_ctx = 1000, .max_rows = 16};
        static int32_t tokens[900];
        struct inf_request q = family_prompt(tokens, 900, 7, 900, 0);
        struct outcome o = {.n_choices = 1};
        const struct kv_layout *layout;
        struct rig rig;

        rig_init(&rig, &params);
        layout = kv_pool_layout(rig.sched->runner->pool);
        q.user = &o;
        q.max_tokens = 90;
        o.id = rig_submit(&rig, &q);
        while (rig_tick(&rig)) {
            rig_collect(&rig, &o, 1);
            for (uint32_t g = 0; g < layout->n_groups; g++) {
                const uint32_t n_used =
                    layout->n_blocks[g] - kv_pool_group_free(rig.sched->runner->pool, g);

                if (layout->groups[g].rule == STATE_WINDOW)
                    assert_true(n_used <= DIV_UP(layout->groups[g].window, 4) + 1 + 16 / 4);
                if (layout->groups[g].rule == STATE_RECURRENT)
                    assert_true(n_used <= 1);
            }
        }
        rig_collect(&rig, &o, 1);
        assert_int_equal(o.choices[0].n_generated, 90);
        outcome_done(&o);
        rig_done(&rig);
    }
}

/* The first text has no snapshot at the end of the common prefix, the second one makes it, and the
 * third one uses it. */
TEST(a_shared_prefix_gets_a_snapshot)
{
    for (uint32_t k = 0; k < rig_n_groups; k++) {
        const struct rig_params params = {.groups = &rig_groups[k], .n_ctx = 400};
        static int32_t tokens[100];
        struct outcome o;
        struct rig rig;
        uint64_t n_rows = 0;

        rig_init(&rig, &params);
        for (uint32_t i = 0; i < 3; i++) {
            const struct inf_request q = family_prompt(tokens, 100, 1, 50, i);

            n_rows = run(&rig, &q, &o);
            outcome_done(&o);
        }
        if (rig.sched->marks.has_chain)
            assert_int_equal(n_rows, 100 - 48);
        rig_done(&rig);
    }
}

RUN_TESTS(cmocka_unit_test(the_next_turn_computes_only_new_tokens),
          cmocka_unit_test(the_next_turn_on_a_new_engine_computes_only_new_tokens),
          cmocka_unit_test(windows_use_little_memory),
          cmocka_unit_test(a_shared_prefix_gets_a_snapshot),
          cmocka_unit_test(texts_do_not_depend_on_the_pool),
          cmocka_unit_test(texts_survive_losses_of_the_device),
          cmocka_unit_test(texts_do_not_depend_on_a_tier))
