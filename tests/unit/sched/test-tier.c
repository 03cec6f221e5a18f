/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests tiers, stores of KV blocks outside of an engine (infer/tier.h). A new engine reads the
 * blocks that an earlier engine stored. The text must be the same as without a tier, whatever the
 * tier does.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "fake_tier.h"
#include "rig.h"

#include "core/clock.h"
#include "sched/tier-impl.h"

static void submit(struct rig *rig, const struct inf_request *q, struct outcome *o)
{
    struct inf_request copy = *q;

    *o = (struct outcome){.n_choices = MAX(q->n_choices, 1u)};
    copy.user = o;
    o->id = rig_submit(rig, &copy);
}

/* Compares the result with that of the same request alone, and frees the result. */
static void check_outcome(struct outcome *o, const struct inf_request *q)
{
    struct outcome alone;

    rig_alone(&(struct null_options){0}, 0, q, &alone);
    outcomes_equal(o, &alone);
    outcome_done(&alone);
    outcome_done(o);
}

static void check(struct rig *rig, const struct inf_request *q, uint32_t n_rows, uint32_t n_cached)
{
    const uint64_t before = rig->sched->stats.n_prompt_tokens;
    struct outcome o;

    submit(rig, q, &o);
    rig_finish(rig, &o, 1);
    assert_int_equal(rig->sched->stats.n_prompt_tokens - before, n_rows);
    assert_int_equal(o.choices[0].n_cached, n_cached);
    check_outcome(&o, q);
}

static void run_fresh(struct fake_tier *tier, const struct inf_request *q)
{
    const struct rig_params params = {.tier = &tier->base};
    struct outcome o;
    struct rig rig;

    rig_init(&rig, &params);
    submit(&rig, q, &o);
    rig_finish(&rig, &o, 1);
    check_outcome(&o, q);
    rig_done(&rig);
}

/* Runs a request on a new engine. */
static void check_fresh(struct fake_tier *tier, const struct inf_request *q, uint32_t n_rows,
                        uint32_t n_cached)
{
    const struct rig_params params = {.tier = &tier->base};
    struct rig rig;

    rig_init(&rig, &params);
    check(&rig, q, n_rows, n_cached);
    rig_done(&rig);
}

TEST(the_next_engine_reads_what_this_one_computed)
{
    struct fake_tier tier;
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    assert_int_equal(tier.n_put_blocks, 17); /* all whole blocks of 61 + 9 tokens */
    check_fresh(&tier, &q, 1, 60);
    assert_int_equal(tier.n_put_blocks, 17);
    q.n_tokens = 60; /* only the last token is computed */
    check_fresh(&tier, &q, 1, 59);
    assert_int_equal(tier.n_put_blocks, 19); /* the two new blocks belong to another answer */
    q.n_tokens = 30;
    check_fresh(&tier, &q, 2, 28);
    q.n_tokens = 4;
    check_fresh(&tier, &q, 1, 3);
    q.n_tokens = 3;
    check_fresh(&tier, &q, 3, 0);
    q = family_prompt(tokens, 50, 1, 21, 7);
    check_fresh(&tier, &q, 30, 20);
    assert_int_equal(tier.n_rejects, 0);
    fake_tier_done(&tier);
}

TEST(salts_and_tenants_separate_blocks_in_the_tier)
{
    struct fake_tier tier;
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);

    fake_tier_init(&tier, 1);
    q.no_cache = true;
    check_fresh(&tier, &q, 41, 0);
    assert_int_equal(tier.n_put_blocks + tier.n_finds, 0);
    q.no_cache = false;
    check_fresh(&tier, &q, 41, 0);
    q.no_cache = true;
    check_fresh(&tier, &q, 41, 0);
    q.no_cache = false;
    q.cache_salt = "pepper";
    q.cache_salt_len = 6;
    check_fresh(&tier, &q, 41, 0);
    check_fresh(&tier, &q, 1, 40);
    q.cache_tenant = "somebody";
    q.session = "talk-1";
    check_fresh(&tier, &q, 41, 0);
    assert_string_equal(tier.tenant, "somebody");
    assert_string_equal(tier.session, "talk-1");
    q.session = NULL; /* a session names a conversation, and does not restrict access */
    check_fresh(&tier, &q, 1, 40);
    fake_tier_done(&tier);
}

TEST(wrong_blocks_are_rejected_and_computed)
{
    const struct fake_lies lies[] = {
        {.wrong_byte = 1}, {.wrong_sum = 1}, {.short_stream = 1}, {.wrong_size = 1},
        {.fail_read = 1},  {.fail_find = 1}, {.count = 1},
    };
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);

    for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
        const bool is_only_count = lies[i].count > 0;
        struct fake_tier tier;

        fake_tier_init(&tier, i);
        check_fresh(&tier, &q, 41, 0);
        tier.lies = lies[i];
        check_fresh(&tier, &q, is_only_count ? 1 : 41, is_only_count ? 40 : 0);
        tier.lies = (struct fake_lies){0};
        /* The rejected blocks were put again; one byte was changed in each block. */
        for (unsigned k = 0; k < 12; k++)
            run_fresh(&tier, &q);
        check_fresh(&tier, &q, 1, 40);
        fake_tier_done(&tier);
    }
}

TEST(blocks_found_in_memory_are_reported_to_the_tier)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct rig rig;

    fake_tier_init(&tier, 1);
    rig_init(&rig, &params);
    check(&rig, &q, 41, 0);
    sched_flush(rig.sched, 1000);
    check(&rig, &q, 1, 40);
    while (tier_work(rig.sched->tier))
        ;
    assert_int_equal(tier.n_used, 10);
    assert_int_equal(tier.n_put_blocks, 12);
    rig_done(&rig);
    fake_tier_done(&tier);
}

/* Blocks of named sessions, and blocks that were found twice, are stored first. */
TEST(the_most_valuable_blocks_are_stored_first)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base};
    int32_t tokens[3][41];
    struct outcome o[3];
    struct rig rig;

    fake_tier_init(&tier, 1);
    rig_init(&rig, &params);
    while (tier_work(rig.sched->tier))
        ;
    rig.sched->spill.credit_usec = -1e12; /* so that no step has time to copy a block */
    for (unsigned i = 0; i < 3; i++) {
        struct inf_request q = family_prompt(tokens[i], 41, i, 41, 0);

        q.session = i == 2 ? "talk" : NULL;
        submit(&rig, &q, &o[i]);
    }
    while (sched_tick(rig.sched))
        tier_work(rig.sched->tier);
    rig_collect(&rig, o, 3);
    for (unsigned i = 0; i < 3; i++)
        outcome_done(&o[i]);
    /* sched_flush() copies blocks with a session before those without one. */
    assert_int_equal(tier.n_put_blocks, 0);
    sched_flush(rig.sched, 60000);
    assert_int_equal(tier.n_put_blocks, 3 * 12);
    assert_string_equal(tier.session, "");
    rig_done(&rig);
    fake_tier_done(&tier);
}

/* A late answer of the tier is taken between two steps. */
TEST(late_answers_are_taken_too)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .max_rows = 8};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);
    struct outcome o;
    struct rig rig;

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    rig_init(&rig, &params);
    while (tier_work(rig.sched->tier))
        ;
    submit(&rig, &q, &o);
    sched_tick(rig.sched);
    assert_int_equal(rig.sched->n_running, 0); /* the request waits for the tier's answer */
    usleep(30000);
    sched_tick(rig.sched);
    sched_tick(rig.sched);
    assert_int_equal(rig.sched->n_running, 1);
    assert_int_equal(rig.sched->stats.n_prompt_tokens, 16);
    rig_finish(&rig, &o, 1);
    assert_true(rig.sched->stats.n_prompt_tokens < 61);
    assert_int_equal(o.choices[0].n_cached, 60 - (rig.sched->stats.n_prompt_tokens - 1));
    check_outcome(&o, &q);
    rig_done(&rig);
    fake_tier_done(&tier);
}

TEST(blocks_that_are_computed_faster_are_not_loaded)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .tier_margin = 1e12};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);
    struct rig rig;

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    tier.n_finds = 0;
    rig_init(&rig, &params);
    check(&rig, &q, 61, 0);
    assert_int_equal(tier.n_finds, 0);
    rig_done(&rig);
    fake_tier_done(&tier);
}

/* If loading takes too long, the engine stops waiting; the blocks then belong only to the
 * sequence. */
TEST(a_load_that_hangs_is_given_up)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .tier_margin = 1};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);
    struct outcome o;
    struct rig rig;
    uint64_t begin;

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    rig_init(&rig, &params);
    while (tier_work(rig.sched->tier))
        ;
    begin = clock_usec();
    submit(&rig, &q, &o);
    sched_tick(rig.sched);
    tier_work(rig.sched->tier);
    while (sched_tick(rig.sched))
        ;
    assert_true(clock_usec() - begin > 50000);
    rig_collect(&rig, &o, 1);
    assert_int_equal(rig.sched->stats.n_prompt_tokens, 61);
    assert_int_equal(o.choices[0].n_cached, 0);
    check_outcome(&o, &q);
    rig_done(&rig);
    fake_tier_done(&tier);
}

/* The tier's thread does not block if bytes do not arrive, so other requests can use it. */
TEST(a_stream_that_stalls_is_given_up)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .tier_margin = 1};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);
    struct outcome o;
    struct rig rig;
    uint64_t begin;

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    tier.lies.stall = 1;
    rig_init(&rig, &params);
    while (tier_work(rig.sched->tier))
        ;
    begin = clock_usec();
    submit(&rig, &q, &o);
    sched_tick(rig.sched);
    tier_work(rig.sched->tier);
    sched_tick(rig.sched);
    assert_true(tier_work(rig.sched->tier));
    assert_true(tier.stalled >= 0);
    assert_in_range(clock_usec() - begin, 20000, 5000000);
    rig_finish(&rig, &o, 1);
    assert_int_equal(o.choices[0].n_cached, 0);
    assert_int_equal(tier.n_rejects, 0);
    check_outcome(&o, &q);
    rig_done(&rig);
    fake_tier_done(&tier);
}

TEST(requests_canceled_during_a_load_leave_nothing_behind)
{
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base};
    int32_t tokens[61];
    struct inf_request q = family_prompt(tokens, 61, 1, 61, 0);

    fake_tier_init(&tier, 1);
    check_fresh(&tier, &q, 61, 0);
    for (unsigned n_ticks = 0; n_ticks < 4; n_ticks++) {
        struct outcome o;
        struct rig rig;

        rig_init(&rig, &params);
        while (tier_work(rig.sched->tier))
            ;
        submit(&rig, &q, &o);
        for (unsigned i = 0; i < n_ticks; i++) {
            sched_tick(rig.sched);
            if (i == 0)
                tier_work(rig.sched->tier);
        }
        sched_cancel(rig.sched, o.id);
        rig_finish(&rig, &o, 1);
        assert_int_equal(o.choices[0].finish, INF_FINISH_CANCELLED);
        outcome_done(&o);
        check(&rig, &q, 1, 60);
        rig_done(&rig);
    }
    fake_tier_done(&tier);
}

/* Files of weights with the same bytes count as the same model. The bytes of each file are read
 * only once. */
TEST(weights_are_known_by_their_content)
{
    static uint8_t weights[3][9 << 20];
    struct file_map maps[4];
    struct fake_tier tier;
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);

    weights[1][5 << 20] = 1;
    for (unsigned i = 0; i < 4; i++)
        maps[i] =
            (struct file_map){weights[i % 3], sizeof(weights[0]), {.ino = i}, .settled = true};
    maps[3].settled = false;
    fake_tier_init(&tier, 1);
    for (unsigned i = 0; i < 4; i++) {
        const struct rig_params params = {.tier = &tier.base, .weights = &maps[i]};

        for (unsigned again = 0; again < 2; again++) {
            struct rig rig;

            rig_init(&rig, &params);
            while (tier_work(rig.sched->tier))
                ;
            check(&rig, &q,
                  i % 2 + again > 0 && i != 1 ? 1
                  : again > 0                 ? 1
                  : i >= 2                    ? 1
                                              : 41,
                  again > 0 || i >= 2 ? 40 : 0);
            rig_done(&rig);
        }
        assert_int_equal(tier.n_remembered, MIN(i + 1, 3u));
    }
    fake_tier_done(&tier);
}

TEST(nothing_is_found_or_kept_until_weights_are_known)
{
    static uint8_t weights[64 << 10];
    const struct file_map map = {weights, sizeof(weights), {.ino = 1}, .settled = true};
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .weights = &map};
    int32_t tokens[41];
    struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
    struct outcome o;
    struct rig rig;

    fake_tier_init(&tier, 1);
    rig_init(&rig, &params);
    tier_work(rig.sched->tier); /* no digest is remembered */
    submit(&rig, &q, &o);
    while (sched_tick(rig.sched))
        ;
    rig_collect(&rig, &o, 1);
    check_outcome(&o, &q);
    assert_int_equal(tier.n_finds + tier.n_puts, 0);
    while (tier_work(rig.sched->tier))
        ;
    rig_done(&rig);
    assert_int_equal(tier.n_put_blocks, 12);
    fake_tier_done(&tier);
}

/* If the cache service does not answer, it is asked again when it is needed. No weights are hashed
 * before it answers. */
TEST(a_tier_that_was_away_is_found_later)
{
    static uint8_t weights[64 << 10];
    const struct file_map map = {weights, sizeof(weights), {.ino = 1}, .settled = true};
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base, .weights = &map};
    int32_t tokens[2][41];
    struct inf_request q = family_prompt(tokens[0], 41, 1, 41, 0);
    struct rig rig;

    fake_tier_init(&tier, 1);
    tier.lies.fail_recall = 1;
    rig_init(&rig, &params);
    while (tier_work(rig.sched->tier))
        ;
    check(&rig, &q, 41, 0);
    assert_int_equal(sched_spill_idle(rig.sched), SPILLED_ALL);
    assert_int_equal(tier.n_recalls, 1);
    tier.lies.fail_recall = 0;
    usleep(120000);
    q = family_prompt(tokens[1], 41, 2, 41, 0);
    check(&rig, &q, 41, 0);
    while (tier_work(rig.sched->tier))
        ;
    assert_int_equal(tier.n_remembered, 1);
    rig_done(&rig);
    assert_int_equal(tier.n_put_blocks, 24);
    fake_tier_done(&tier);
}

/* Makes a file of weights with an old mtime, so that any write changes the mtime. */
static void put_weights(char *path)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const int fd = mkstemp(path);

    assert_true(fd >= 0 && ftruncate(fd, 64 << 10) == 0);
    ASSERT_OK(futimens(fd, times));
    close(fd);
}

static void write_weights(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_int_equal(pwrite(fd, "x", 1, 1000), 1);
    close(fd);
}

/* After a change, results and digests may come from either content. */
TEST(nothing_is_kept_when_the_weights_changed)
{
    for (unsigned before_digest = 0; before_digest < 2; before_digest++) {
        char path[] = "/tmp/sconce-test-XXXXXX";
        struct fake_tier tier;
        struct file_map map;
        struct rig_params params = {.tier = &tier.base, .weights = &map};
        int32_t tokens[41];
        struct inf_request q = family_prompt(tokens, 41, 1, 41, 0);
        struct outcome o;
        struct inf_err err;
        struct rig rig;

        put_weights(path);
        ASSERT_OK_ERR(file_map_open(path, &map, &err), err);
        map.settled = true;
        fake_tier_init(&tier, 1);
        rig_init(&rig, &params);
        tier_work(rig.sched->tier); /* no digest is remembered */
        if (before_digest)
            write_weights(path);
        while (tier_work(rig.sched->tier))
            ;
        assert_int_equal(tier.n_remembered, !before_digest);
        submit(&rig, &q, &o);
        while (sched_tick(rig.sched))
            ;
        rig_collect(&rig, &o, 1);
        check_outcome(&o, &q);
        if (!before_digest)
            write_weights(path);
        while (sched_spill_idle(rig.sched) != SPILLED_ALL)
            tier_work(rig.sched->tier);
        assert_int_equal(tier.n_puts, 0);
        assert_false(tier_is_ready(rig.sched->tier));
        rig_done(&rig);
        assert_int_equal(tier.n_puts, 0);
        fake_tier_done(&tier);
        file_map_done(&map);
        unlink(path);
    }
}

RUN_TESTS(cmocka_unit_test(the_next_engine_reads_what_this_one_computed),
          cmocka_unit_test(salts_and_tenants_separate_blocks_in_the_tier),
          cmocka_unit_test(wrong_blocks_are_rejected_and_computed),
          cmocka_unit_test(blocks_found_in_memory_are_reported_to_the_tier),
          cmocka_unit_test(the_most_valuable_blocks_are_stored_first),
          cmocka_unit_test(late_answers_are_taken_too),
          cmocka_unit_test(blocks_that_are_computed_faster_are_not_loaded),
          cmocka_unit_test(a_load_that_hangs_is_given_up),
          cmocka_unit_test(a_stream_that_stalls_is_given_up),
          cmocka_unit_test(requests_canceled_during_a_load_leave_nothing_behind),
          cmocka_unit_test(weights_are_known_by_their_content),
          cmocka_unit_test(nothing_is_found_or_kept_until_weights_are_known),
          cmocka_unit_test(nothing_is_kept_when_the_weights_changed),
          cmocka_unit_test(a_tier_that_was_away_is_found_later))
