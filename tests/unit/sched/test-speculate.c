/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares texts with and without drafts: they must be equal in all respects.
 *
 * The logits of the tests make texts that repeat themselves most of the time, so that drafts are
 * both accepted and rejected.
 */
#include "fake_tier.h"
#include "rig.h"

/* Prefers one token that depends on the last token, and now and then any token. */
static void repeat_logits(void *data UNUSED, const struct null_row *row, float *logits,
                          uint32_t n_vocab)
{
    const uint64_t hash = row->history * 0x9e3779b97f4a7c15u;
    const uint32_t usual = 'a' + ((uint32_t)row->token * 5 + 3) % 11;
    const uint32_t best = hash >> 61 > 0 ? usual : (uint32_t)(hash >> 32) % 256;

    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = (float)((hash ^ v * 2654435761u) >> 8 & 0xff) * 0.01f + (v == best ? 9 : 0);
}

static void check_random(struct rig_params params, uint32_t n_rounds)
{
    struct rig_totals totals;

    params.null.logits = repeat_logits;
    for (unsigned kind = SPECULATION_NGRAM; kind <= SPECULATION_AUTO; kind++) {
        params.speculation = kind;
        params.null.seed++;
        totals = rig_random(&params, n_rounds);
        assert_true(totals.n_accepted > totals.n_drafted / 10);
        assert_true(totals.n_accepted < totals.n_drafted * 9 / 10);
        assert_true(totals.n_accepted > 20 * n_rounds);
    }
}

TEST(drafts_change_no_text)
{
    check_random((struct rig_params){.n_ctx = 128}, 20);
}

TEST(drafts_change_no_text_if_the_pool_is_small)
{
    check_random((struct rig_params){.n_ctx = 128, .n_blocks = 60, .max_seqs = 5}, 20);
}

TEST(drafts_change_no_text_with_lists_and_losses)
{
    check_random((struct rig_params){.null = {.makes_lists = true, .lose_one_in = 50},
                                     .n_ctx = 128,
                                     .n_padding = 20,
                                     .n_blocks = 80},
                 20);
}

TEST(drafts_change_no_text_without_a_cache)
{
    check_random((struct rig_params){.n_ctx = 128, .no_prefix_cache = true}, 10);
}

TEST(drafts_change_no_text_over_a_tier)
{
    struct fake_tier tier;

    fake_tier_init(&tier, 1);
    check_random((struct rig_params){.n_ctx = 128, .n_blocks = 60, .tier = &tier.base}, 20);
    assert_true(tier.n_put_blocks > 100);
    assert_int_equal(tier.n_rejects, 0);
    fake_tier_done(&tier);
}

TEST(drafts_change_no_text_with_any_groups)
{
    for (unsigned i = 0; i < rig_n_groups; i++)
        check_random((struct rig_params){.n_ctx = 128, .groups = &rig_groups[i]}, 10);
}

/* Runs a request with and without drafts. Returns how many drafted tokens were accepted. */
static uint32_t compare(const struct inf_request *q, uint32_t n_times)
{
    const struct null_options null = {.logits = repeat_logits, .seed = 5};
    const struct rig_params params = {
        .null = null, .n_ctx = 256, .speculation = SPECULATION_SUFFIX};
    struct outcome plain, fast;
    struct inf_request copy = *q;
    uint32_t n_accepted;
    struct rig rig;

    rig_alone(&null, 256, q, &plain);
    rig_init(&rig, &params);
    for (uint32_t i = 0; i < n_times; i++) {
        fast = (struct outcome){.n_choices = MAX(q->n_choices, 1)};
        copy.user = &fast;
        fast.id = rig_submit(&rig, &copy);
        rig_finish(&rig, &fast, 1);
        outcomes_equal(&plain, &fast);
        assert_int_equal(plain.choices[0].stop_index, fast.choices[0].stop_index);
        assert_int_equal(plain.choices[0].n_channel, fast.choices[0].n_channel);
        assert_int_equal(plain.choices[0].stop_token, fast.choices[0].stop_token);
        outcome_done(&fast);
    }
    n_accepted = (uint32_t)rig.sched->stats.n_draft_accepted;
    rig_done(&rig);
    outcome_done(&plain);
    return n_accepted;
}

static const int32_t abc[] = {'a', 'b', 'c', 'a', 'b', 'c', 'a', 'b'};

TEST(an_answer_is_drafted_from_the_answer_before)
{
    const struct inf_request q = {
        .tokens = abc, .n_tokens = 8, .max_tokens = 200, .n_logprobs = 2, .ignore_eos = true};
    const uint32_t n_first = compare(&q, 1);

    /* The second answer is the first one, so that nearly all of its tokens are drafted. */
    assert_true(compare(&q, 2) >= n_first + 150);
}

TEST(the_end_of_reasoning_is_drafted)
{
    static const int32_t close[] = {'<', '/', 't', 'h', 'i', 'n', 'k', '>'};

    for (uint32_t budget = 0; budget < 40; budget += 3) {
        const struct inf_request q = {
            .tokens = abc,
            .n_tokens = 8,
            .max_tokens = 60,
            .n_logprobs = -1,
            .ignore_eos = true,
            .channel = {.close = close, .n_close = 8, .is_open = true, .budget = budget},
        };

        assert_true(compare(&q, 1) >= 5);
    }
}

TEST(short_and_long_texts_end_where_they_should)
{
    static const struct inf_stop stops[] = {{"dh", 2}, {"gg", 2}};

    for (uint32_t n = 1; n < 40; n++) {
        const struct inf_request q = {.tokens = abc,
                                      .n_tokens = 8,
                                      .max_tokens = n,
                                      .min_tokens = n / 2,
                                      .n_choices = 1 + n % 3,
                                      .n_logprobs = 1,
                                      .stops = stops,
                                      .n_stops = 2,
                                      .sampling = {.temperature = (float)(n % 2) * 0.8f,
                                                   .presence_penalty = (float)(n % 5) * 0.1f,
                                                   .has_seed = true,
                                                   .seed = n}};

        compare(&q, 2);
    }
}

TEST(grammars_refuse_drafts_first)
{
    struct inf_grammar grammar = {
        .texts = {"abababababababababababab", "abababababababababacacac", "abab"}};

    for (uint32_t seed = 0; seed < 20; seed++) {
        const struct inf_request q = {
            .tokens = abc,
            .n_tokens = 8,
            .max_tokens = 40,
            .n_logprobs = 1,
            .grammar = &grammar,
            .sampling = {.temperature = 1, .has_seed = true, .seed = seed}};

        compare(&q, 2);
    }
    assert_int_equal(grammar.n_refs, 0);
}

/* The logits prefer 'a' … 'k', which no text of this grammar has, so that no token is guessed from
 * earlier text before the second answer. */
TEST(tokens_that_a_grammar_forces_are_drafted)
{
    struct inf_grammar grammar = {.texts = {"(#1234567890#1234567890#X)",
                                            "(#1234567890#1234567890#YZ0987654321!)",
                                            "(#1234567890#1234567890#YW)"}};

    for (uint32_t seed = 0; seed < 40; seed++) {
        const struct inf_request q = {
            .tokens = abc,
            .n_tokens = 8,
            .max_tokens = 8 + seed,
            .n_logprobs = 1,
            .n_choices = 1 + seed % 3,
            .grammar = &grammar,
            /* Forced tokens are drafted whatever the request says about guesses. */
            .draft_p_min = seed % 4 == 1 ? 1 : 0,
            .min_draft = seed % 4 == 2 ? 16 : 0,
            .sampling = {.temperature = (float)(seed % 2),
                         .repetition_penalty = seed % 3 ? 1.3f : 1,
                         .penalty_last_n = 64,
                         .has_seed = true,
                         .seed = seed}};

        /* The first token comes from the prompt, and one comes after each draft. */
        assert_true(compare(&q, 1) >= 6);
    }
    assert_true(grammar.n_forced > 40 * 20);
    assert_int_equal(grammar.n_refs, 0);
}

/* Refused tokens are cut before the rows of a step are chosen, so no draft is rejected. */
TEST(refused_tokens_cost_no_row)
{
    struct inf_grammar grammar = {.texts = {"acbacbacbacbacbacbacbacb"}};
    const struct rig_params params = {.null = {.logits = repeat_logits},
                                      .speculation = SPECULATION_NGRAM};
    static const int32_t other[] = {'a', 'c', 'x', 'a', 'c', 'y', 'a', 'c', 'x', 'a', 'c'};
    struct outcome o = {.n_choices = 1};
    struct inf_request q = {.tokens = other,
                            .n_tokens = 11,
                            .max_tokens = 40,
                            .n_logprobs = -1,
                            .grammar = &grammar,
                            .user = &o};
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    sched_stats(rig.sched, &stats);
    assert_int_equal(o.choices[0].n_rejected, 0);
    assert_true(stats.n_draft_accepted >= 18 && stats.n_drafted == stats.n_draft_accepted);
    outcome_done(&o);
    rig_done(&rig);
}

TEST(a_request_can_limit_its_drafts)
{
    struct inf_request q = {
        .tokens = abc, .n_tokens = 8, .max_tokens = 100, .n_logprobs = -1, .ignore_eos = true};

    assert_true(compare(&q, 1) > 10);
    q.n_draft = INF_NO_DRAFT;
    assert_int_equal(compare(&q, 1), 0);
    q.n_draft = 2;
    q.min_draft = 3;
    assert_int_equal(compare(&q, 1), 0);
    q.min_draft = 2;
    assert_true(compare(&q, 1) > 0);
    q.draft_p_min = 1;
    assert_int_equal(compare(&q, 1), 0);
}

TEST(tokens_behind_the_end_are_not_counted)
{
    static const struct inf_stop stops[] = {{"dh", 2}, {"b", 1}, {"k", 1}};

    for (uint32_t seed = 0; seed < 30; seed++) {
        const struct rig_params params = {.null = {.logits = repeat_logits, .seed = seed},
                                          .speculation = SPECULATION_SUFFIX};
        struct outcome o = {.n_choices = 1};
        struct inf_request q = {.tokens = abc,
                                .n_tokens = 8,
                                .max_tokens = 100,
                                .min_tokens = 20,
                                .n_logprobs = -1,
                                .stops = stops,
                                .n_stops = 3,
                                .user = &o};
        struct rig rig;

        rig_init(&rig, &params);
        o.id = rig_submit(&rig, &q);
        rig_finish(&rig, &o, 1);
        assert_int_equal(rig.sched->stats.n_generated_tokens, o.choices[0].n_generated);
        assert_int_equal(rig.sched->stats.n_draft_accepted, o.choices[0].n_accepted);
        assert_true(o.choices[0].n_accepted < o.choices[0].n_generated);
        outcome_done(&o);
        rig_done(&rig);
    }
}

TEST(counts_are_told)
{
    const struct rig_params params = {.null = {.logits = repeat_logits},
                                      .speculation = SPECULATION_NGRAM};
    struct outcome o = {.n_choices = 1};
    struct inf_request q = {.tokens = abc,
                            .n_tokens = 8,
                            .max_tokens = 100,
                            .n_logprobs = -1,
                            .ignore_eos = true,
                            .user = &o};
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    sched_stats(rig.sched, &stats);
    assert_int_equal(stats.n_generated_tokens, 100);
    assert_true(stats.n_steps < 100);
    assert_true(stats.n_drafts > 0 && stats.n_drafted > stats.n_draft_accepted);
    assert_true(stats.draft_tried[0] == stats.n_drafts);
    assert_int_equal(stats.n_draft_accepted, o.choices[0].n_accepted);
    assert_int_equal(stats.n_drafted - stats.n_draft_accepted, o.choices[0].n_rejected);
    outcome_done(&o);
    rig_done(&rig);
}

RUN_TESTS(cmocka_unit_test(drafts_change_no_text),
          cmocka_unit_test(drafts_change_no_text_if_the_pool_is_small),
          cmocka_unit_test(drafts_change_no_text_with_lists_and_losses),
          cmocka_unit_test(drafts_change_no_text_without_a_cache),
          cmocka_unit_test(drafts_change_no_text_over_a_tier),
          cmocka_unit_test(drafts_change_no_text_with_any_groups),
          cmocka_unit_test(an_answer_is_drafted_from_the_answer_before),
          cmocka_unit_test(the_end_of_reasoning_is_drafted),
          cmocka_unit_test(short_and_long_texts_end_where_they_should),
          cmocka_unit_test(grammars_refuse_drafts_first),
          cmocka_unit_test(tokens_that_a_grammar_forces_are_drafted),
          cmocka_unit_test(refused_tokens_cost_no_row),
          cmocka_unit_test(a_request_can_limit_its_drafts),
          cmocka_unit_test(tokens_behind_the_end_are_not_counted),
          cmocka_unit_test(counts_are_told))
