/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests drafts of a draft model on the null device, whose logits depend on all tokens that a row
 * sees. A draft model that shares the device of the model has the same logits. So none of its
 * tokens is rejected, and each error in its state would make it draft a wrong token. A draft model
 * with a device of its own has other logits, so that some of its tokens are rejected.
 */
#include <math.h>

#include "fake_tier.h"
#include "rig.h"

#define N_LETTERS 11

/* Prefers one token that depends on the last token, and now and then any token. */
static void usual_logits(void *data UNUSED, const struct null_row *row, float *logits,
                         uint32_t n_vocab)
{
    const uint64_t hash = row->history * 0x9e3779b97f4a7c15u;
    const uint32_t usual = 'a' + ((uint32_t)row->token * 5 + 3) % N_LETTERS;
    const uint32_t best = hash >> 61 > 0 ? usual : (uint32_t)(hash >> 32) % 256;

    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = (float)((hash ^ v * 2654435761u) >> 8 & 0xff) * 0.01f + (v == best ? 9 : 0);
}

static const int32_t text[] = {'a', 'b', 'c', 'd', 'a', 'e', 'f', 'b', 'g', 'a'};

/* Runs a request alone and without drafts. */
static void run_plain(const struct rig_params *params, const struct inf_request *q,
                      struct outcome *ret_outcome)
{
    const struct rig_params plain = {.null = {.logits = params->null.logits,
                                              .data = params->null.data,
                                              .seed = params->null.seed},
                                     .n_ctx = params->n_ctx,
                                     .groups = params->groups};
    struct inf_request copy = *q;
    struct rig rig;

    *ret_outcome = (struct outcome){.n_choices = 1};
    copy.user = ret_outcome;
    rig_init(&rig, &plain);
    ret_outcome->id = rig_submit(&rig, &copy);
    rig_finish(&rig, ret_outcome, 1);
    rig_done(&rig);
}

/* Runs @n requests with prompts of @n_prompt tokens, each of which is submitted @n_ticks ticks
 * after the one before, and compares their texts with those of the same requests without drafts.
 * Returns the statistics of the engine. */
static struct inf_engine_stats run_apart(const struct rig_params *params, uint32_t n,
                                         uint32_t n_prompt, float temperature, uint32_t n_ticks)
{
    static struct outcome fast[RIG_AT_ONCE], plain;
    static int32_t tokens[RIG_AT_ONCE][128];
    struct inf_request q[RIG_AT_ONCE];
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, params);
    rig.steady_pace = true;
    for (uint32_t i = 0; i < n; i++) {
        q[i] = family_prompt(tokens[i], n_prompt, 5, n_prompt / 2, i);
        q[i].max_tokens = 60;
        q[i].sampling = (struct inf_sampling){.temperature = temperature,
                                              .presence_penalty = (float)(i % 3) * 0.3f,
                                              .has_seed = true,
                                              .seed = i + 1};
        q[i].user = &fast[i];
        fast[i] = (struct outcome){.n_choices = 1};
        fast[i].id = rig_submit(&rig, &q[i]);
        for (uint32_t k = 0; k < n_ticks; k++)
            rig_tick(&rig);
        rig_collect(&rig, fast, n);
    }
    rig_finish(&rig, fast, n);
    sched_stats(rig.sched, &stats);
    rig_done(&rig);
    for (uint32_t i = 0; i < n; i++) {
        run_plain(params, &q[i], &plain);
        outcomes_equal(&plain, &fast[i]);
        outcome_done(&plain);
        outcome_done(&fast[i]);
    }
    return stats;
}

static struct inf_engine_stats run(const struct rig_params *params, uint32_t n, uint32_t n_prompt,
                                   float temperature)
{
    return run_apart(params, n, n_prompt, temperature, 1);
}

TEST(a_model_with_the_same_logits_is_always_right)
{
    static const float temperatures[] = {0, 0.7f, 1.5f};

    for (unsigned t = 0; t < ARRAY_SIZE(temperatures); t++)
        for (unsigned g = 0; g < rig_n_groups; g++) {
            const struct rig_params params = {.null = {.logits = usual_logits, .seed = g},
                                              .n_ctx = 256,
                                              .speculation = SPECULATION_MODEL,
                                              .groups = &rig_groups[g],
                                              .draft_groups = &rig_groups[g],
                                              .shares_device = true};
            struct inf_engine_stats s;

            s = run(&params, 5, 100, temperatures[t]);
            assert_int_equal(s.n_draft_accepted, s.n_drafted);
            assert_true(s.n_draft_accepted > 100);
            assert_true(s.n_steps < 100);
        }
}

TEST(a_model_with_other_logits_is_sometimes_right)
{
    for (unsigned g = 0; g < rig_n_groups; g++) {
        const struct rig_params params = {.null = {.logits = usual_logits, .seed = g},
                                          .n_ctx = 256,
                                          .speculation = SPECULATION_MODEL,
                                          .draft_groups = &rig_groups[g]};
        const struct inf_engine_stats s = run(&params, 6, 90, (float)(g % 2));

        assert_true(s.n_draft_accepted > 100 && s.n_draft_accepted < s.n_drafted);
    }
}

/* The layer that predicts a further token gets the hidden states of the right tokens, whatever part
 * of the drafts is accepted. With one FULL group in both models, it has the same logits as the
 * model, and each error in its state would make it draft a wrong token. */
TEST(the_layer_of_the_model_gets_its_hidden_states)
{
    for (unsigned g = 0; g <= rig_n_groups; g++) {
        const struct rig_params params = {
            .null = {.logits = usual_logits, .seed = g, .checks_input = true},
            .n_ctx = 256,
            .no_prefix_cache = true,
            .speculation = SPECULATION_MODEL,
            .groups = g < rig_n_groups ? &rig_groups[g] : NULL,
            .shares_device = g == rig_n_groups || g % 2,
            .predicts = true};
        const struct inf_engine_stats s = run(&params, 5, 110, (float)(g % 2) * 0.7f);

        assert_true(s.n_draft_accepted > 100);
        if (g == rig_n_groups)
            assert_int_equal(s.n_draft_accepted, s.n_drafted);
    }
}

TEST(random_requests_are_the_same_with_the_layer_of_the_model)
{
    struct rig_params params = {.null = {.logits = usual_logits},
                                .n_ctx = 128,
                                .speculation = SPECULATION_MODEL,
                                .predicts = true};

    for (unsigned i = 0; i < 8; i++) {
        params.null.seed = i;
        params.groups = &rig_groups[i % rig_n_groups];
        params.shares_device = i % 2;
        params.n_blocks = i < 4 ? 0 : 60;
        params.n_draft_blocks = i % 4 < 2 ? 0 : 40;
        params.null.lose_one_in = i == 5 ? 80 : 0;
        assert_true(rig_random(&params, 10).n_accepted > 30);
    }
}

/* Sets logits that depend only on the position of the token that follows. */
static void place_logits(void *data UNUSED, const struct null_row *row, float *logits,
                         uint32_t n_vocab)
{
    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = v == 'a' + (row->pos + 1) * 5 % 26 ? 9 : (float)(v % 7) * 0.1f;
}

/* Gives a row of a block the logits of the token in its place. */
static void block_logits(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    struct null_row before = *row;

    before.pos--;
    place_logits(data, &before, logits, n_vocab);
}

/* Gives the device of the drafter other logits. */
static void set_drafter(struct rig *rig, const struct rig_params *params,
                        void (*logits)(void *data, const struct null_row *row, float *logits,
                                       uint32_t n_vocab))
{
    struct null_options null = params->null;

    null.logits = logits;
    null.n_vocab = rig->sched->runner->n_vocab;
    null.own_input = params->block > 0;
    null_configure(rig->sched->speculation->drafter->runner->backend, &null);
}

/* Blocks of tokens get the hidden states of the right tokens, and stand in the right places: a
 * drafter that knows the token of each place is always right. */
TEST(a_block_is_drafted_in_one_step)
{
    static const uint32_t sizes[] = {2, 5, 16};

    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
        for (unsigned g = 0; g <= rig_n_groups; g++) {
            const struct rig_params params = {
                .null = {.logits = place_logits, .seed = g, .checks_input = true},
                .n_ctx = 256,
                .no_prefix_cache = g % 2,
                .speculation = SPECULATION_MODEL,
                .groups = g < rig_n_groups ? &rig_groups[g] : NULL,
                .predicts = true,
                .block = sizes[i]};
            int32_t prompt[100];
            struct outcome o = {.n_choices = 1};
            struct inf_request q = family_prompt(prompt, 100, 5, 50, g);
            struct backend *b;
            struct rig rig;

            q.max_tokens = 60;
            q.user = &o;
            rig_init(&rig, &params);
            set_drafter(&rig, &params, block_logits);
            b = rig.sched->speculation->drafter->runner->backend;
            o.id = rig_submit(&rig, &q);
            rig_finish(&rig, &o, 1);
            for (uint32_t k = 1; k < o.choices[0].n_tokens; k++)
                assert_int_equal(((int32_t *)o.choices[0].ids.data)[k], 'a' + (100 + k) * 5 % 26);
            assert_int_equal(rig.sched->stats.n_draft_accepted, rig.sched->stats.n_drafted);
            assert_true(rig.sched->stats.n_drafted > 20);
            /* Two runs for each draft, and some for the prompt. */
            assert_true(null_n_steps(b) <= 2 * rig.sched->stats.n_drafts + 8);
            rig_done(&rig);
            outcome_done(&o);
        }
}

TEST(random_requests_are_the_same_with_blocks)
{
    struct fake_tier tier;
    struct rig_params params = {.null = {.logits = usual_logits},
                                .n_ctx = 128,
                                .speculation = SPECULATION_MODEL,
                                .predicts = true};

    for (unsigned i = 0; i < 12; i++) {
        params.null.seed = i;
        params.block = 2 + i * 3 % 15;
        params.groups = &rig_groups[i % rig_n_groups];
        params.shares_device = i % 2;
        params.n_blocks = i < 4 ? 0 : 60;
        params.n_draft_blocks = i % 4 < 2 ? 0 : 40;
        params.null.lose_one_in = i == 5 ? 80 : 0;
        params.tier = i % 3 == 0 ? &tier.base : NULL;
        fake_tier_init(&tier, i);
        rig_random(&params, 10);
        fake_tier_done(&tier);
    }
}

/* The draft model must compute the prompt of a request that joins before it drafts for it. In this
 * step the drafts are chosen a second time. There are more requests than drafted tokens in a step,
 * so the second choice may take a request that the first one left out. */
TEST(requests_join_while_others_draft)
{
    uint64_t n_drafted = 0, n_accepted = 0;

    for (unsigned i = 0; i < 24; i++) {
        const struct rig_params params = {.null = {.logits = usual_logits, .seed = i},
                                          .n_ctx = 256,
                                          .max_seqs = RIG_AT_ONCE,
                                          .speculation = SPECULATION_MODEL,
                                          .draft_groups = &rig_groups[i % rig_n_groups]};
        const struct inf_engine_stats s =
            run_apart(&params, RIG_AT_ONCE, 100, (float)(i % 2), 1 + i % 3);

        n_drafted += s.n_drafted;
        n_accepted += s.n_draft_accepted;
    }
    assert_true(n_accepted > 1000 && n_accepted < n_drafted);
}

TEST(a_lost_device_is_survived)
{
    const struct rig_params params = {.null = {.logits = usual_logits, .lose_one_in = 60},
                                      .n_ctx = 256,
                                      .speculation = SPECULATION_MODEL,
                                      .shares_device = true};
    const struct rig_params alone = {.null = {.logits = usual_logits}, .n_ctx = 256};
    struct outcome o = {.n_choices = 1}, plain;
    struct inf_request q = {.tokens = text,
                            .n_tokens = 10,
                            .max_tokens = 200,
                            .n_logprobs = -1,
                            .ignore_eos = true,
                            .user = &o};
    struct rig rig;

    rig_alone(&alone.null, 256, &q, &plain);
    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    outcomes_equal(&plain, &o);
    assert_true(rig.sched->stats.n_device_losses > 0);
    assert_int_equal(o.choices[0].n_rejected, 0);
    rig_done(&rig);
    outcome_done(&o);
    outcome_done(&plain);
}

TEST(a_small_pool_only_makes_drafts_rarer)
{
    struct rig_params params = {.null = {.logits = usual_logits},
                                .n_ctx = 256,
                                .max_seqs = 8,
                                .speculation = SPECULATION_MODEL,
                                .shares_device = true};
    const uint64_t n_all = run(&params, 8, 100, 0).n_drafted;

    for (uint32_t n = 1; n < 64; n += 9) {
        struct inf_engine_stats s;

        params.n_draft_blocks = n;
        s = run(&params, 8, 100, 0);
        assert_true(s.n_drafted < n_all);
        assert_int_equal(s.n_draft_accepted, s.n_drafted);
    }
}

TEST(a_short_context_of_the_draft_model_ends_the_drafts)
{
    const struct rig_params params = {.null = {.logits = usual_logits},
                                      .n_ctx = 256,
                                      .speculation = SPECULATION_MODEL,
                                      .n_draft_ctx = 70,
                                      .shares_device = true};
    const struct inf_engine_stats s = run(&params, 3, 40, 0);

    assert_int_equal(s.n_draft_accepted, s.n_drafted);
    assert_in_range(s.n_draft_accepted, 3 * 10, 3 * 30);
}

TEST(random_requests_are_the_same_with_a_draft_model)
{
    struct rig_params params = {
        .null = {.logits = usual_logits}, .n_ctx = 128, .speculation = SPECULATION_MODEL};
    struct rig_totals totals;

    for (unsigned i = 0; i < 16; i++) {
        params.null.seed = i;
        params.draft_groups = &rig_groups[i % rig_n_groups];
        params.groups = &rig_groups[(i + 3) % rig_n_groups];
        params.shares_device = i % 2;
        params.n_draft_missing = i % 4 == 2 ? 100 : 0;
        params.n_blocks = i < 4 ? 0 : 60;
        params.n_draft_blocks = i % 4 < 2 ? 0 : 40;
        params.null.lose_one_in = i % 8 == 5 ? 80 : 0;
        totals = rig_random(&params, 10);
        assert_true(totals.n_accepted > 30);
    }
}

/* Logits that depend only on the last token, so that the probabilities are known. */
static void known_logits(void *data UNUSED, const struct null_row *row, float *logits,
                         uint32_t n_vocab)
{
    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = -INFINITY;
    for (uint32_t k = 0; k < N_LETTERS; k++)
        logits['a' + k] = (float)((row->token * 7 + k * k * 3) % 13) * 0.25f;
}

/* The draft model is right for some tokens only: it takes other letters for the last token. */
static void other_logits(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    struct null_row other = *row;

    other.token += row->pos % 3 == 0;
    known_logits(data, &other, logits, n_vocab);
}

static double exact_share(int32_t last, uint32_t k)
{
    double sum = 0, own = 0;

    for (uint32_t i = 0; i < N_LETTERS; i++) {
        const double e = exp((double)((last * 7 + (int32_t)(i * i * 3)) % 13) * 0.25);

        sum += e;
        own = i == k ? e : own;
    }
    return own / sum;
}

/* Counts in @counts [N_LETTERS, N_LETTERS] which token followed which in the texts of @n requests
 * with drafts, in blocks of @block tokens or, if this is 0, one after another. Returns the share of
 * the drafted tokens that were accepted. */
static double count_pairs(uint32_t n, uint32_t block, uint64_t counts[N_LETTERS][N_LETTERS])
{
    const struct rig_params params = {.null = {.logits = known_logits},
                                      .n_ctx = 1024,
                                      .speculation = SPECULATION_MODEL,
                                      .predicts = block > 0,
                                      .block = block};
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, &params);
    set_drafter(&rig, &params, other_logits);
    for (uint32_t i = 0; i < n; i++) {
        struct outcome o = {.n_choices = 1};
        const struct inf_request q = {
            .tokens = text,
            .n_tokens = 10,
            .max_tokens = 1000,
            .n_logprobs = -1,
            .ignore_eos = true,
            .sampling = {.temperature = 1, .top_p = 1, .has_seed = true, .seed = i},
            .user = &o};
        const int32_t *ids;

        o.id = rig_submit(&rig, &q);
        rig_finish(&rig, &o, 1);
        ids = (const int32_t *)o.choices[0].ids.data;
        for (uint32_t k = 1; k < o.choices[0].n_tokens; k++)
            counts[ids[k - 1] - 'a'][ids[k] - 'a']++;
        outcome_done(&o);
    }
    sched_stats(rig.sched, &stats);
    rig_done(&rig);
    return (double)stats.n_draft_accepted / (double)stats.n_drafted;
}

static void check_distribution(uint32_t block, double least)
{
    static uint64_t counts[N_LETTERS][N_LETTERS];
    double accepted, chi = 0;
    uint32_t n_free = 0;

    memset(counts, 0, sizeof(counts));
    accepted = count_pairs(100, block, counts);
    assert_true(accepted > least && accepted < 0.9);
    for (uint32_t a = 0; a < N_LETTERS; a++) {
        uint64_t n = 0;

        for (uint32_t k = 0; k < N_LETTERS; k++)
            n += counts[a][k];
        for (uint32_t k = 0; k < N_LETTERS; k++) {
            const double want = exact_share((int32_t)('a' + a), k) * (double)n;

            chi += ((double)counts[a][k] - want) * ((double)counts[a][k] - want) / want;
        }
        n_free += N_LETTERS - 1;
    }
    /* within 4 standard deviations of the chi-square distribution */
    assert_true(chi < n_free + 4 * sqrt(2.0 * n_free));
}

TEST(random_texts_follow_the_distribution)
{
    check_distribution(0, 0.1);
}

/* The rows of a block do not know the tokens before them, so fewer drafts are right. */
TEST(random_texts_with_blocks_follow_the_distribution)
{
    check_distribution(8, 0.03);
}

/* The text and the draft model's logits have nothing in common. */
static void wrong_logits(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    usual_logits(data, row, logits, n_vocab);
    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = v == 'z' ? 50 : logits[v];
}

TEST(a_model_that_is_always_wrong_is_hardly_used)
{
    struct rig_params params = {.null = {.logits = usual_logits, .step_usec = 300, .row_usec = 20},
                                .n_ctx = 1024,
                                .speculation = SPECULATION_MODEL};
    struct null_options null = params.null;
    struct outcome o = {.n_choices = 1};
    const struct inf_request q = {.tokens = text,
                                  .n_tokens = 10,
                                  .max_tokens = 1000,
                                  .n_logprobs = -1,
                                  .ignore_eos = true,
                                  .user = &o};
    struct backend *b;
    struct rig rig;

    rig_init(&rig, &params);
    rig.sched->speculation->ignores_cost = false;
    rig.sched->speculation->credit_usec = 20000;
    b = rig.sched->speculation->drafter->runner->backend;
    null.logits = wrong_logits;
    null.step_usec = 60;
    null.n_vocab = rig.sched->runner->n_vocab;
    null_configure(b, &null);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    fprintf(stderr, "steps %lu drafted %lu of %lu; %f %f %f %f\n", null_n_steps(b),
            rig.sched->stats.n_drafted, rig.sched->stats.n_steps,
            rig.sched->speculation->cost.times[1][0].usec,
            rig.sched->speculation->cost.times[1][1].usec,
            rig.sched->speculation->cost.times[1][2].usec,
            rig.sched->speculation->cost.models[1].usec);
    assert_true(rig.sched->stats.n_drafted < 60);
    assert_int_equal(rig.sched->stats.n_draft_accepted, 0);
    /* Probes go on. */
    assert_in_range(null_n_steps(b), 3, 150);
    outcome_done(&o);
    rig_done(&rig);
}

/* A draft head may know tokens that the model has and the tokenizer does not. Their logits have no
 * place in the row for all tokens. */
TEST(a_head_may_know_tokens_without_a_text)
{
    static int32_t tokens[FAKE_N_VOCAB - 10];
    const struct rig_params params = {.null = {.logits = usual_logits, .seed = 3},
                                      .n_ctx = 256,
                                      .n_padding = 4096,
                                      .speculation = SPECULATION_MODEL,
                                      .n_draft_missing = 10,
                                      .predicts = true};
    struct outcome o = {.n_choices = 1}, plain = {.n_choices = 1};
    int32_t prompt[20];
    struct inf_request q = family_prompt(prompt, 20, 5, 10, 1);
    struct drafter *d;
    struct rig rig;

    for (int32_t i = 0; i < (int32_t)ARRAY_SIZE(tokens); i++)
        tokens[i] = i % 4 == 3 ? FAKE_N_VOCAB + 4095 - i : i;
    q.max_tokens = 60;
    q.user = &o;
    rig_init(&rig, &params);
    d = rig.sched->speculation->drafter;
    ASSERT_OK(drafter_use_head(d, tokens));
    assert_int_equal(d->n_vocab, FAKE_N_VOCAB);
    o.id = rig_submit(&rig, &q);
    rig_finish(&rig, &o, 1);
    assert_true(rig.sched->stats.n_drafted > 0);
    rig_done(&rig);
    run_plain(&params, &q, &plain);
    outcomes_equal(&plain, &o);
    outcome_done(&plain);
    outcome_done(&o);
}

RUN_TESTS(cmocka_unit_test(a_model_with_the_same_logits_is_always_right),
          cmocka_unit_test(a_head_may_know_tokens_without_a_text),
          cmocka_unit_test(the_layer_of_the_model_gets_its_hidden_states),
          cmocka_unit_test(random_requests_are_the_same_with_the_layer_of_the_model),
          cmocka_unit_test(a_block_is_drafted_in_one_step),
          cmocka_unit_test(random_requests_are_the_same_with_blocks),
          cmocka_unit_test(random_texts_with_blocks_follow_the_distribution),
          cmocka_unit_test(a_model_with_other_logits_is_sometimes_right),
          cmocka_unit_test(requests_join_while_others_draft),
          cmocka_unit_test(a_lost_device_is_survived),
          cmocka_unit_test(a_small_pool_only_makes_drafts_rarer),
          cmocka_unit_test(a_short_context_of_the_draft_model_ends_the_drafts),
          cmocka_unit_test(random_requests_are_the_same_with_a_draft_model),
          cmocka_unit_test(random_texts_follow_the_distribution),
          cmocka_unit_test(a_model_that_is_always_wrong_is_hardly_used))
