/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a step allocates nothing: the linker routes malloc and related functions through the
 * counters below. Whole ticks do not allocate either, once the event logs have reached their size.
 */
#include "rig.h"

static unsigned long n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    n_allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    n_allocations++;
    return __real_realloc(p, size);
}

static void submit_all(struct rig *rig, struct random_request *requests, struct outcome *outcomes,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        random_request(&requests[i], i, 60, 60);
        requests[i].q.max_tokens = 60;
        requests[i].q.ignore_eos = true;
        requests[i].q.n_stops = 0;
        requests[i].q.n_logprobs = 3;
        requests[i].q.sampling.temperature = (float)(i % 2);
        outcomes[i] = (struct outcome){.n_choices = requests[i].q.n_choices};
        requests[i].q.user = &outcomes[i];
        outcomes[i].id = rig_submit(rig, &requests[i].q);
    }
}

static void check_steps(const struct rig_params *params)
{
    static struct outcome outcomes[20];
    static struct random_request requests[20];
    unsigned long before;
    struct rig rig;
    int r;

    n_allocations = 0;
    rig_init(&rig, params);
    submit_all(&rig, requests, outcomes, 20);
    for (;;) {
        sched_tick(rig.sched);
        rig_collect(&rig, outcomes, 20);
        if (sched_has_device(rig.sched))
            sched_admit(rig.sched);
        sched_make_room(rig.sched);
        if (!sched_pick_ready(rig.sched))
            break;
        before = n_allocations;
        r = sched_step(rig.sched);
        if (r == -ENODEV)
            sched_lose_device(rig.sched);
        assert_int_equal(n_allocations, before);
        if (r == 0)
            sched_emit(rig.sched);
        sched_retire(rig.sched);
    }
    assert_true(n_allocations > 100);
    rig_finish(&rig, outcomes, 20);
    for (uint32_t i = 0; i < 20; i++)
        outcome_done(&outcomes[i]);
    rig_done(&rig);
}

TEST(no_step_allocates)
{
    const struct rig_params params = {.n_blocks = 40};

    check_steps(&params);
}

TEST(no_step_with_lists_and_losses_allocates)
{
    const struct rig_params params = {
        .null = {.makes_lists = true, .lose_one_in = 40}, .n_padding = 20, .n_blocks = 40};

    check_steps(&params);
}

TEST(no_step_with_drafts_allocates)
{
    const struct rig_params params = {.n_blocks = 40, .speculation = SPECULATION_SUFFIX};

    check_steps(&params);
}

TEST(steady_decoding_allocates_nothing)
{
    static struct outcome outcomes[4];
    static struct random_request requests[4];
    const struct rig_params params = {0};
    struct inf_event event;
    unsigned long before = 0;
    struct rig rig;

    rig_init(&rig, &params);
    submit_all(&rig, requests, outcomes, 4);
    for (unsigned i = 0; i < 50; i++) {
        if (i == 30)
            before = n_allocations;
        assert_true(sched_tick(rig.sched));
        while (events_next(&rig.sched->events, &event))
            ;
    }
    assert_int_equal(n_allocations, before);
    rig_done(&rig);
}

RUN_TESTS(cmocka_unit_test(no_step_allocates),
          cmocka_unit_test(no_step_with_lists_and_losses_allocates),
          cmocka_unit_test(no_step_with_drafts_allocates),
          cmocka_unit_test(steady_decoding_allocates_nothing))
