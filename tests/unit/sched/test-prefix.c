/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests prompts with a common prefix. Known blocks are not computed again; only the number of
 * computed rows shows this. The logits of the null device reveal every block whose contents do not
 * match its name.
 */
#include "rig.h"

/* Runs one request to its end; returns the number of rows that were computed. */
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

/* Works like run(), then compares the result with that of the request alone, and frees the
 * result. */
static void check(struct rig *rig, const struct inf_request *q, uint64_t n_rows, uint32_t n_cached)
{
    struct outcome o, alone;

    assert_int_equal(run(rig, q, &o), n_rows);
    assert_int_equal(o.choices[0].n_cached, n_cached);
    rig_alone(&(struct null_options){0}, 0, q, &alone);
    outcomes_equal(&o, &alone);
    outcome_done(&alone);
    outcome_done(&o);
}

TEST(a_prompt_is_computed_once)
{
    const struct rig_params params = {0};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);
    struct rig rig;

    rig_init(&rig, &params);
    check(&rig, &q, 61, 0);
    check(&rig, &q, 1, 60);
    /* The whole prompt is known. Its last token is still computed, into a copy of its block. */
    q.n_tokens = 60;
    check(&rig, &q, 1, 59);
    q.n_tokens = 30;
    check(&rig, &q, 2, 28);
    q.n_tokens = 3;
    check(&rig, &q, 3, 0);
    q = family_prompt(tokens, 50, 1, 21, 7);
    check(&rig, &q, 30, 20);
    rig_done(&rig);
}

TEST(the_next_turn_finds_the_answer)
{
    const struct rig_params params = {0};
    struct outcome o;
    int32_t tokens[100];
    struct inf_request q = family_prompt(tokens, 22, 1, 22, 0);
    struct rig rig;

    rig_init(&rig, &params);
    q.max_tokens = 31;
    assert_int_equal(run(&rig, &q, &o), 22);
    assert_int_equal(o.choices[0].ids.len, 31 * sizeof(int32_t));
    memcpy(tokens + 22, o.choices[0].ids.data, o.choices[0].ids.len);
    outcome_done(&o);
    q.n_tokens = 22 + 31 + 5;
    for (uint32_t i = 22 + 31; i < q.n_tokens; i++)
        tokens[i] = 'a';
    /* The answer's last token was never computed. */
    check(&rig, &q, 58 - 52, 52);
    rig_done(&rig);
}

TEST(simultaneous_requests_compute_a_prefix_once)
{
    enum { N = 5 };
    static int32_t tokens[N][60];
    const struct rig_params params = {.max_rows = 8};
    struct outcome o[N], alone;
    struct inf_request q[N];
    struct rig rig;

    rig_init(&rig, &params);
    for (uint32_t i = 0; i < N; i++) {
        q[i] = family_prompt(tokens[i], 60, 1, i < 3 ? 60 : 40, i);
        o[i] = (struct outcome){.n_choices = 1};
        q[i].user = &o[i];
        o[i].id = rig_submit(&rig, &q[i]);
    }
    rig_finish(&rig, o, N);
    assert_int_equal(rig.sched->stats.n_prompt_tokens, 60 + 1 + 1 + 20 + 20);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(o[i].choices[0].n_cached, i == 0 ? 0 : i < 3 ? 59 : 40);
        rig_alone(&params.null, 0, &q[i], &alone);
        outcomes_equal(&o[i], &alone);
        outcome_done(&alone);
        outcome_done(&o[i]);
    }
    rig_done(&rig);
}

/* A request that waits for blocks of another request computes the blocks itself if the other
 * request is canceled. */
TEST(no_request_waits_for_a_canceled_one)
{
    static int32_t tokens[60];
    const struct rig_params params = {.max_rows = 8};
    struct outcome o[2] = {{.n_choices = 1}, {.n_choices = 1}};
    struct inf_request q = family_prompt(tokens, 60, 1, 60, 0);
    struct rig rig;

    rig_init(&rig, &params);
    for (unsigned i = 0; i < 2; i++) {
        q.user = &o[i];
        o[i].id = rig_submit(&rig, &q);
    }
    for (unsigned i = 0; i < 3; i++)
        sched_tick(rig.sched);
    assert_int_equal(rig.sched->n_running, 1);
    sched_cancel(rig.sched, o[0].id);
    rig_finish(&rig, o, 2);
    assert_int_equal(o[1].choices[0].finish, INF_FINISH_LENGTH);
    assert_int_equal(rig.sched->stats.n_prompt_tokens, 60);
    assert_int_equal(o[1].choices[0].n_cached, 24);
    for (unsigned i = 0; i < 2; i++)
        outcome_done(&o[i]);
    rig_done(&rig);
}

TEST(salts_and_tenants_separate_caches)
{
    const struct rig_params params = {0};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct rig rig;

    rig_init(&rig, &params);
    q.no_cache = true;
    check(&rig, &q, 41, 0);
    q.no_cache = false;
    check(&rig, &q, 41, 0);
    q.no_cache = true;
    check(&rig, &q, 41, 0);
    q.no_cache = false;
    q.cache_salt = "pepper";
    q.cache_salt_len = 6;
    check(&rig, &q, 41, 0);
    check(&rig, &q, 1, 40);
    q.cache_tenant = "somebody";
    check(&rig, &q, 41, 0);
    q.cache_salt_len = 0;
    check(&rig, &q, 41, 0);
    q.cache_tenant = NULL;
    check(&rig, &q, 1, 40);
    rig_done(&rig);
}

TEST(the_prefix_cache_can_be_switched_off)
{
    const struct rig_params params = {.no_prefix_cache = true};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct rig rig;

    rig_init(&rig, &params);
    check(&rig, &q, 41, 0);
    check(&rig, &q, 41, 0);
    assert_int_equal(kv_pool_n_idle(rig.sched->runner->pool), 0);
    rig_done(&rig);
}

/* Each token of a prompt needs its log-probability, so each row is computed. Other requests may
 * reuse the computed blocks. */
TEST(log_probabilities_of_a_prompt_take_all_rows)
{
    const struct rig_params params = {0};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct rig rig;

    rig_init(&rig, &params);
    check(&rig, &q, 41, 0);
    q.n_logprobs = 2;
    q.prompt_logprobs = true;
    check(&rig, &q, 41, 0);
    q.n_choices = 3;
    check(&rig, &q, 43, 0);
    q.prompt_logprobs = false;
    q.n_choices = 1;
    check(&rig, &q, 1, 40);
    rig_done(&rig);
}

TEST(choices_also_use_known_blocks)
{
    const struct rig_params params = {.max_seqs = 2};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct rig rig;

    rig_init(&rig, &params);
    check(&rig, &q, 41, 0);
    q.n_choices = 5;
    q.sampling.temperature = 1;
    q.sampling.has_seed = true;
    check(&rig, &q, 5, 40);
    rig_done(&rig);
}

/* The pool holds exactly one sequence of full length: there is no room for a copy. */
TEST(a_pool_of_one_sequence_is_enough)
{
    const struct rig_params params = {.n_ctx = 64, .n_blocks = 16};
    int32_t tokens[60];
    struct inf_request q = family_prompt(tokens, 60, 1, 60, 0);
    struct rig rig;

    q.max_tokens = 4;
    rig_init(&rig, &params);
    check(&rig, &q, 60, 0);
    check(&rig, &q, 1, 59);
    q.n_tokens = 59;
    check(&rig, &q, 3, 56);
    q = family_prompt(tokens, 60, 2, 60, 0);
    q.max_tokens = 4;
    check(&rig, &q, 60, 0);
    rig_done(&rig);
}

/* A preempted request finds its blocks again by name, unless they were evicted meanwhile. */
TEST(preempted_sequences_come_back_cheaply)
{
    enum { N = 6 };
    static int32_t tokens[N][20];
    uint64_t rows[2];

    for (unsigned without = 0; without < 2; without++) {
        const struct rig_params params = {.n_ctx = 64, .n_blocks = 40, .no_prefix_cache = without};
        struct outcome o[N], alone;
        struct inf_request q[N];
        struct rig rig;

        rig_init(&rig, &params);
        for (uint32_t i = 0; i < N; i++) {
            q[i] = family_prompt(tokens[i], 20, i, 20, 0);
            q[i].max_tokens = 40;
            o[i] = (struct outcome){.n_choices = 1};
            q[i].user = &o[i];
            o[i].id = rig_submit(&rig, &q[i]);
        }
        rig_finish(&rig, o, N);
        rows[without] = rig.sched->stats.n_prompt_tokens;
        for (uint32_t i = 0; i < N; i++) {
            /* Its own blocks do not count as cached tokens. */
            assert_int_equal(o[i].choices[0].n_cached, 0);
            rig_alone(&params.null, 64, &q[i], &alone);
            outcomes_equal(&o[i], &alone);
            outcome_done(&alone);
            outcome_done(&o[i]);
        }
        rig_done(&rig);
    }
    assert_true(rows[1] > N * 20);
    assert_true(rows[0] < rows[1]);
}

/* After a device failure or nonsense results, no block can be found. */
TEST(doubtful_blocks_are_forgotten)
{
    const struct rig_params params = {
        .null = {.fail_step = 3, .has_nan_token = true, .nan_token = 'N'}};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct outcome o;
    struct rig rig;

    for (unsigned i = 0; i < 41; i++)
        tokens[i] = 'a';
    rig_init(&rig, &params);
    assert_int_equal(run(&rig, &q, &o), 41);
    assert_int_equal(o.choices[0].finish, INF_FINISH_ERROR);
    outcome_done(&o);
    assert_int_equal(kv_pool_n_idle(rig.sched->runner->pool), 0);
    q.max_tokens = 1;
    assert_int_equal(run(&rig, &q, &o), 41);
    outcome_done(&o);
    assert_int_equal(kv_pool_n_idle(rig.sched->runner->pool), 10);
    tokens[40] = 'N';
    run(&rig, &q, &o);
    assert_int_equal(o.choices[0].finish, INF_FINISH_ERROR);
    outcome_done(&o);
    assert_int_equal(kv_pool_n_idle(rig.sched->runner->pool), 0);
    rig_done(&rig);
}

static void check_random(const struct rig_params *params, uint32_t n_rounds)
{
    assert_true(rig_random(params, n_rounds).n_cached > (uint64_t)n_rounds * RIG_AT_ONCE);
}

TEST(twenty_thousand_requests_over_a_tiny_pool)
{
    for (uint32_t i = 0; i < 5; i++) {
        const struct rig_params params = {.null = {.seed = 1 + i},
                                          .n_ctx = 100,
                                          .n_blocks = 25 + 7 * i,
                                          .max_rows = 8 + 8 * i,
                                          .max_seqs = 3 + i};

        check_random(&params, test_rounds(100));
    }
}

TEST(twenty_thousand_requests_with_lists_and_losses)
{
    for (uint32_t i = 0; i < 5; i++) {
        const struct rig_params params = {
            .null = {.seed = 10 + i, .lose_one_in = 200, .makes_lists = i % 2},
            .n_padding = i % 2 * 9,
            .n_ctx = 100,
            .n_blocks = 30 + 20 * i,
            .max_rows = 40};

        check_random(&params, test_rounds(100));
    }
}

RUN_TESTS(cmocka_unit_test(a_prompt_is_computed_once),
          cmocka_unit_test(the_next_turn_finds_the_answer),
          cmocka_unit_test(simultaneous_requests_compute_a_prefix_once),
          cmocka_unit_test(no_request_waits_for_a_canceled_one),
          cmocka_unit_test(salts_and_tenants_separate_caches),
          cmocka_unit_test(the_prefix_cache_can_be_switched_off),
          cmocka_unit_test(log_probabilities_of_a_prompt_take_all_rows),
          cmocka_unit_test(choices_also_use_known_blocks),
          cmocka_unit_test(a_pool_of_one_sequence_is_enough),
          cmocka_unit_test(preempted_sequences_come_back_cheaply),
          cmocka_unit_test(doubtful_blocks_are_forgotten),
          cmocka_unit_test(twenty_thousand_requests_over_a_tiny_pool),
          cmocka_unit_test(twenty_thousand_requests_with_lists_and_losses))
