/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests an engine with a thread of its own: several callers submit requests, cancel them and ask
 * for statistics at the same time, while another thread reads events. A build with
 * -Db_sanitize=thread shows data races.
 */
#include "fake_tier.h"
#include "rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define N_CALLERS  3
#define N_REQUESTS 300

struct caller {
    struct sched *sched;
    pthread_t thread;
    uint64_t seed;
    atomic_uint *n_sent;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    struct inf_engine_stats stats;
    struct rng rng;

    rng_seed(&rng, c->seed);
    for (unsigned i = 0; i < N_REQUESTS; i++) {
        struct random_request r;
        uint64_t id = 0;

        random_request(&r, c->seed * N_REQUESTS + i, 60, 60);
        while (sched_submit(c->sched, &r.q, &id) == INF_ENGINE_FULL)
            usleep(100);
        atomic_fetch_add(c->n_sent, 1);
        if (rng_u32(&rng) % 2) {
            usleep(rng_u32(&rng) % 500);
            sched_cancel(c->sched, id);
        }
        if (rng_u32(&rng) % 8 == 0)
            sched_stats(c->sched, &stats);
    }
    return NULL;
}

static void run_callers(struct rig *rig, unsigned n_requests)
{
    struct caller callers[N_CALLERS];
    struct pollfd fd = {.fd = rig->sched->events.fd, .events = POLLIN};
    struct inf_event event;
    atomic_uint n_sent = 0;
    unsigned n_last = 0;

    for (unsigned i = 0; i < N_CALLERS; i++) {
        callers[i] = (struct caller){rig->sched, 0, i + 1, &n_sent};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    while (n_last < n_requests) {
        while (events_next(&rig->sched->events, &event))
            n_last += event.kind == INF_EVENT_FINISH && event.last;
        if (n_last < n_requests)
            assert_int_equal(poll(&fd, 1, 20000), 1);
    }
    for (unsigned i = 0; i < N_CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
}

TEST(callers_and_the_engine_agree)
{
    const struct rig_params params = {
        .n_ctx = 128, .n_blocks = 60, .max_seqs = 6, .max_queue = 20, .max_rows = 32};
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, &params);
    ASSERT_OK(sched_start(rig.sched));
    run_callers(&rig, N_CALLERS * N_REQUESTS);
    sched_stats(rig.sched, &stats);
    assert_int_equal(stats.n_finished, N_CALLERS * N_REQUESTS);
    assert_int_equal(stats.n_running + stats.n_waiting + stats.n_blocks_used, 0);
    rig_done(&rig);
}

TEST(an_engine_may_be_freed_while_it_works)
{
    for (unsigned i = 0; i < 30; i++) {
        const struct rig_params params = {.null = {.row_usec = 10}, .n_blocks = 60, .max_seqs = 6};
        struct random_request r;
        struct rig rig;

        rig_init(&rig, &params);
        ASSERT_OK(sched_start(rig.sched));
        for (unsigned k = 0; k < 20; k++) {
            random_request(&r, 100 * i + k, 60, 60);
            rig_submit(&rig, &r.q);
        }
        usleep(i * 200);
        rig_done(&rig);
    }
}

/* Runs the same requests several times, each time on a new engine. The engines share one tier,
 * which sometimes fails on purpose. */
TEST(an_engine_and_its_tier_agree)
{
    struct fake_tier tier;
    const struct rig_params params = {.n_ctx = 128,
                                      .n_blocks = 60,
                                      .max_seqs = 6,
                                      .max_queue = 20,
                                      .max_rows = 32,
                                      .tier = &tier.base};
    struct tier_counts counts = {0};
    struct rig rig;

    fake_tier_init(&tier, 1);
    tier.lies = (struct fake_lies){.wrong_byte = 50, .fail_read = 50, .fail_put = 100, .usec = 200};
    for (unsigned i = 0; i < 3; i++) {
        rig_init(&rig, &params);
        ASSERT_OK(sched_start(rig.sched));
        run_callers(&rig, N_CALLERS * N_REQUESTS);
        tier_count(rig.sched->tier, &counts);
        rig_done(&rig);
    }
    assert_true(counts.n_loaded > 0);
    assert_true(tier.n_put_blocks > 0);
    fake_tier_done(&tier);
}

TEST(an_engine_may_be_freed_while_blocks_travel)
{
    static int32_t tokens[61];
    struct inf_request q = {
        .tokens = tokens, .n_tokens = 61, .max_tokens = 30, .n_logprobs = -1, .ignore_eos = true};
    struct fake_tier tier;

    fake_tier_init(&tier, 1);
    for (unsigned i = 0; i < 30; i++) {
        const struct rig_params params = {.n_blocks = 60, .max_seqs = 6, .tier = &tier.base};
        struct rig rig;

        tier.lies.usec = i * 100;
        rig_init(&rig, &params);
        ASSERT_OK(sched_start(rig.sched));
        for (unsigned k = 0; k < 20; k++) {
            q.n_choices = 1 + k % 3;
            tokens[30] = (int32_t)(k % 4);
            rig_submit(&rig, &q);
        }
        usleep(i * 200);
        rig_done(&rig);
    }
    assert_true(tier.n_put_blocks > 0);
    fake_tier_done(&tier);
}

/* When the engine has no work, it stores all blocks in the tier and releases their memory. */
TEST(an_idle_engine_stores_its_blocks)
{
    static int32_t tokens[61];
    struct inf_request q = {
        .tokens = tokens, .n_tokens = 61, .max_tokens = 1, .n_logprobs = -1, .ignore_eos = true};
    struct fake_tier tier;
    const struct rig_params params = {.tier = &tier.base};
    struct rig rig;

    fake_tier_init(&tier, 1);
    rig_init(&rig, &params);
    ASSERT_OK(sched_start(rig.sched));
    rig_submit(&rig, &q);
    for (unsigned i = 0; i < 500 && tier.n_put_blocks < 15; i++)
        usleep(10000);
    assert_int_equal(tier.n_put_blocks, 15);
    rig_done(&rig);
    fake_tier_done(&tier);
}

/* On a slow device a long prompt is cut into chunks, so that canceling it takes effect soon. */
TEST(a_long_prompt_is_cancelled_soon)
{
    enum { N = 4000 };
    static int32_t tokens[N];
    const struct rig_params params = {
        .null = {.row_usec = 1000}, .n_ctx = N + 10, .max_seqs = 1, .max_rows = 512};
    const struct inf_request q = {.tokens = tokens, .n_tokens = N, .n_logprobs = -1};
    struct inf_event event;
    struct pollfd fd;
    struct rig rig;
    uint64_t id;

    rig_init(&rig, &params);
    fd = (struct pollfd){.fd = rig.sched->events.fd, .events = POLLIN};
    ASSERT_OK(sched_start(rig.sched));
    id = rig_submit(&rig, &q);
    usleep(500000);
    sched_cancel(rig.sched, id);
    /* The target is 200 ms; the rest is a margin for busy machines. */
    assert_int_equal(poll(&fd, 1, 400), 1);
    assert_int_equal(events_next(&rig.sched->events, &event), 1);
    assert_int_equal(event.kind, INF_EVENT_FINISH);
    assert_int_equal(event.finish, INF_FINISH_CANCELLED);
    rig_done(&rig);
}

/* Between two attempts to open a lost device, canceling and freeing do not block. */
TEST(callers_do_not_wait_for_a_lost_device)
{
    const struct rig_params params = {.null = {.lose_step = 3, .n_bad_recovers = 1000}};
    static const int32_t prompt[] = {1, 2, 3};
    const struct inf_request q = {
        .tokens = prompt, .n_tokens = 3, .n_logprobs = -1, .ignore_eos = true};
    struct inf_event event = {0};
    struct inf_engine_stats stats;
    struct pollfd fd;
    struct rig rig;
    uint64_t id;

    rig_init(&rig, &params);
    rig.sched->loss.pause_usec = 3600 * 1000000ull;
    fd = (struct pollfd){.fd = rig.sched->events.fd, .events = POLLIN};
    ASSERT_OK(sched_start(rig.sched));
    id = rig_submit(&rig, &q);
    do {
        usleep(1000);
        sched_stats(rig.sched, &stats);
    } while (stats.n_device_losses == 0);
    rig_submit(&rig, &q);
    sched_cancel(rig.sched, id);
    while (event.kind != INF_EVENT_FINISH)
        if (!events_next(&rig.sched->events, &event))
            assert_int_equal(poll(&fd, 1, 20000), 1);
    assert_int_equal(event.request, id);
    assert_int_equal(event.finish, INF_FINISH_CANCELLED);
    rig_done(&rig);
}

TEST(callers_and_the_engine_agree_on_losses)
{
    const struct rig_params params = {.null = {.lose_one_in = 50, .n_bad_recovers = 2},
                                      .n_blocks = 60,
                                      .max_seqs = 6,
                                      .max_queue = 20,
                                      .max_rows = 32};
    struct inf_engine_stats stats;
    struct rig rig;

    rig_init(&rig, &params);
    rig.sched->loss.pause_usec = 100;
    ASSERT_OK(sched_start(rig.sched));
    run_callers(&rig, N_CALLERS * N_REQUESTS);
    sched_stats(rig.sched, &stats);
    assert_int_equal(stats.n_finished, N_CALLERS * N_REQUESTS);
    assert_int_equal(stats.n_errors, 0);
    assert_true(stats.n_device_losses > 0);
    rig_done(&rig);
}

RUN_TESTS(cmocka_unit_test(callers_and_the_engine_agree),
          cmocka_unit_test(an_engine_may_be_freed_while_it_works),
          cmocka_unit_test(an_engine_and_its_tier_agree),
          cmocka_unit_test(an_engine_may_be_freed_while_blocks_travel),
          cmocka_unit_test(an_idle_engine_stores_its_blocks),
          cmocka_unit_test(a_long_prompt_is_cancelled_soon),
          cmocka_unit_test(callers_do_not_wait_for_a_lost_device),
          cmocka_unit_test(callers_and_the_engine_agree_on_losses))
