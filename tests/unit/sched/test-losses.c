/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a device that is lost at every step, or at random. All requests must give the same result
 * as without losses, or end with a reason if the device cannot be opened again.
 */
#include "rig.h"

#define REOPEN "the device was lost and could not be reopened: "

/* The number of allocations that are not freed yet. The functions below count them; the program is
 * linked with --wrap. */
static long n_in_use;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

void *__wrap_malloc(size_t size)
{
    n_in_use++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_in_use++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    n_in_use += p == NULL;
    return __real_realloc(p, size);
}

void __wrap_free(void *p)
{
    n_in_use -= p != NULL;
    __real_free(p);
}

/* Submits all requests, and prepares the outcome of each. */
static void submit_all(struct rig *rig, struct random_request *requests, struct outcome *outcomes,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        outcomes[i] = (struct outcome){.n_choices = MAX(requests[i].q.n_choices, 1u)};
        requests[i].q.user = &outcomes[i];
        outcomes[i].id = rig_submit(rig, &requests[i].q);
    }
}

static void run_all(struct rig *rig, struct random_request *requests, struct outcome *outcomes,
                    uint32_t n)
{
    submit_all(rig, requests, outcomes, n);
    rig_finish(rig, outcomes, n);
}

/* Runs a thousand requests in rounds; between rounds the memory in use must be the same. */
static void check_thousand(const struct rig_params *params)
{
    enum { N = 100, N_ROUNDS = 10 };
    static struct outcome outcomes[N], expected[N];
    static struct random_request requests[N];
    struct rig_params calm = *params;
    struct inf_engine_stats stats;
    struct rig lossy, without;
    long before;

    calm.null.lose_one_in = 0;
    rig_init(&lossy, params);
    rig_init(&without, &calm);
    before = n_in_use;
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        for (uint32_t i = 0; i < N; i++)
            random_request(&requests[i], params->null.seed * 1000 + round * N + i, 60, 40);
        run_all(&lossy, requests, outcomes, N);
        run_all(&without, requests, expected, N);
        for (uint32_t i = 0; i < N; i++) {
            outcomes_equal(&outcomes[i], &expected[i]);
            outcome_done(&outcomes[i]);
            outcome_done(&expected[i]);
        }
        assert_int_equal(n_in_use, before);
    }
    sched_stats(lossy.sched, &stats);
    assert_int_equal(stats.n_finished, N * N_ROUNDS);
    assert_int_equal(stats.n_errors, 0);
    assert_int_equal(stats.n_device_losses, null_count(lossy.backend).n_losses);
    assert_int_equal(null_count(lossy.backend).n_recovers, stats.n_device_losses);
    assert_true(stats.n_device_losses > 50);
    rig_done(&lossy);
    rig_done(&without);
}

TEST(a_thousand_requests_survive_random_losses)
{
    const struct rig_params params = {
        .null = {.seed = 1, .lose_one_in = 60}, .n_ctx = 100, .n_blocks = 80, .max_rows = 40};

    check_thousand(&params);
}

/* Some losses happen while whole rows are fetched. */
TEST(a_thousand_requests_with_lists_survive_random_losses)
{
    const struct rig_params params = {.null = {.seed = 2, .lose_one_in = 60, .makes_lists = true},
                                      .n_ctx = 100,
                                      .n_padding = 9,
                                      .max_rows = 40};

    check_thousand(&params);
}

/* The device is lost once, at each step in turn: in the prompt, when choices join, and while all
 * decode. */
TEST(a_loss_at_any_step_changes_nothing)
{
    enum { N = 3 };
    static struct random_request requests[N];
    static struct outcome expected[N], outcomes[N];
    struct rig_params params = {.null = {.seed = 5}, .n_ctx = 100, .max_rows = 16};
    struct rig rig;
    uint64_t n_steps;

    for (uint32_t i = 0; i < N; i++) {
        random_request(&requests[i], 40 + i, 64, 20);
        requests[i].q.n_tokens = 61;
        requests[i].q.max_tokens = 20;
        requests[i].q.n_choices = 1 + i * 2;
        requests[i].q.n_logprobs = 3;
        requests[i].q.prompt_logprobs = i < 2;
        requests[i].q.ignore_eos = true;
        requests[i].q.n_stops = 0;
        requests[i].q.sampling.temperature = (float)i;
    }
    rig_init(&rig, &params);
    run_all(&rig, requests, expected, N);
    n_steps = null_n_steps(rig.backend);
    rig_done(&rig);
    assert_true(n_steps > 30);
    for (uint64_t step = 1; step <= n_steps; step++) {
        params.null.lose_step = step;
        rig_init(&rig, &params);
        run_all(&rig, requests, outcomes, N);
        /* The number of rows in a step depends on measured times, so a run can end before this
         * step. */
        assert_int_equal(rig.sched->stats.n_device_losses, null_n_steps(rig.backend) >= step);
        for (uint32_t i = 0; i < N; i++) {
            outcomes_equal(&outcomes[i], &expected[i]);
            outcome_done(&outcomes[i]);
        }
        rig_done(&rig);
    }
    for (uint32_t i = 0; i < N; i++)
        outcome_done(&expected[i]);
}

static bool is_live(const struct outcome *o)
{
    return o->id != 0 && o->n_finished < o->n_choices;
}

/* Requests are canceled while they wait in the queue, run, or wait until the device is opened
 * again. */
TEST(cancelled_requests_and_losses_leave_nothing_behind)
{
    enum { N = 40 };
    static struct outcome outcomes[N];
    static struct random_request requests[N];
    const struct rig_params params = {.null = {.lose_one_in = 8, .n_bad_recovers = 2},
                                      .n_ctx = 64,
                                      .n_blocks = 24,
                                      .max_seqs = 4,
                                      .max_rows = 16};
    uint32_t n_submitted = 0;
    struct rig rig;
    struct rng rng;

    rng_seed(&rng, 6);
    rig_init(&rig, &params);
    for (uint32_t n = 0; n < 3000;) {
        const uint32_t i = rng_u32(&rng) % N;
        struct outcome *o = &outcomes[i];

        if (is_live(o)) {
            sched_cancel(rig.sched, o->id);
            n++;
        } else {
            outcome_done(o);
            random_request(&requests[i], n_submitted++, 50, 50);
            submit_all(&rig, &requests[i], o, 1);
        }
        if (rng_u32(&rng) % 2)
            sched_tick(rig.sched);
        rig_collect(&rig, outcomes, N);
    }
    rig_finish(&rig, outcomes, N);
    assert_int_equal(rig.sched->stats.n_finished, n_submitted);
    assert_int_equal(rig.sched->n_queued + rig.sched->n_active, 0);
    assert_true(rig.sched->stats.n_device_losses > 100);
    for (uint32_t i = 0; i < N; i++)
        outcome_done(&outcomes[i]);
    rig_done(&rig);
}

static void make_plain(struct random_request *requests, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        random_request(&requests[i], i, 30, 30);
        requests[i].q.max_tokens = 30;
        requests[i].q.ignore_eos = true;
    }
}

TEST(opening_is_tried_again)
{
    static struct random_request requests[8];
    static struct outcome outcomes[8];
    const struct rig_params params = {.null = {.lose_step = 5, .n_bad_recovers = 5}};
    struct rig rig;

    make_plain(requests, 8);
    rig_init(&rig, &params);
    run_all(&rig, requests, outcomes, 8);
    assert_int_equal(null_count(rig.backend).n_recovers, 6);
    assert_int_equal(rig.sched->stats.n_errors, 0);
    for (uint32_t i = 0; i < 8; i++)
        outcome_done(&outcomes[i]);
    rig_done(&rig);
}

/* All running and waiting requests end; a later one makes the engine try the device again. */
TEST(a_device_that_stays_lost_ends_all_requests)
{
    static struct random_request requests[12];
    static struct outcome outcomes[12];
    struct rig_params params = {.null = {.lose_step = 5, .n_bad_recovers = 12}, .max_seqs = 4};
    struct rig rig;

    make_plain(requests, 12);
    rig_init(&rig, &params);
    for (unsigned round = 1; round <= 3; round++) {
        run_all(&rig, requests, outcomes, 12);
        for (uint32_t i = 0; i < 12; i++) {
            for (uint32_t k = 0; k < outcomes[i].n_choices && round < 3; k++) {
                assert_int_equal(outcomes[i].choices[k].finish, INF_FINISH_ERROR);
                ASSERT_STREQ(outcomes[i].choices[k].error, REOPEN "there is no device");
            }
            for (uint32_t k = 0; k < outcomes[i].n_choices && round == 3; k++)
                assert_int_not_equal(outcomes[i].choices[k].finish, INF_FINISH_ERROR);
            outcome_done(&outcomes[i]);
        }
        assert_int_equal(null_count(rig.backend).n_recovers, round < 3 ? round * 6 : 13);
    }
    assert_int_equal(rig.sched->stats.n_device_losses, 1);
    rig_done(&rig);
}

static uint64_t losses_until_error(const struct rig_params *params, uint32_t n_prompt)
{
    static struct random_request r;
    struct outcome o;
    struct rig rig;
    uint64_t n;

    random_request(&r, 9, 64, 10);
    r.q.n_tokens = n_prompt;
    r.q.n_choices = 1;
    rig_init(&rig, params);
    run_all(&rig, &r, &o, 1);
    assert_int_equal(o.choices[0].finish, INF_FINISH_ERROR);
    ASSERT_STREQ(o.choices[0].error, REOPEN "it was lost repeatedly");
    n = null_count(rig.backend).n_losses;
    outcome_done(&o);
    rig_done(&rig);
    return n;
}

TEST(a_device_that_is_lost_at_every_step_ends_running_requests)
{
    const struct rig_params params = {.null = {.lose_one_in = 1}};

    assert_int_equal(losses_until_error(&params, 5), 3);
}

/* Some steps succeed between the losses, but never enough of them. */
TEST(a_prompt_that_never_completes_is_given_up)
{
    const struct rig_params params = {
        .null = {.seed = 1, .lose_one_in = 8}, .max_seqs = 1, .max_rows = 1};

    assert_int_equal(losses_until_error(&params, 64), 24);
}

RUN_TESTS(cmocka_unit_test(a_thousand_requests_survive_random_losses),
          cmocka_unit_test(a_thousand_requests_with_lists_survive_random_losses),
          cmocka_unit_test(a_loss_at_any_step_changes_nothing),
          cmocka_unit_test(cancelled_requests_and_losses_leave_nothing_behind),
          cmocka_unit_test(opening_is_tried_again),
          cmocka_unit_test(a_device_that_stays_lost_ends_all_requests),
          cmocka_unit_test(a_device_that_is_lost_at_every_step_ends_running_requests),
          cmocka_unit_test(a_prompt_that_never_completes_is_given_up))
