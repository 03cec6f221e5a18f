/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the scheduler step by step on the null device, whose logits reveal every error in blocks
 * and positions. A request must give the same result as alone, whatever other requests run.
 */
#include "rig.h"

#include <poll.h>

#define N_REQUESTS 60

static const struct null_options plain_null = {.seed = 7};

/* Checks requests that begin at random times. The result of each request must be the same as if it
 * had run alone. */
static void check_joining(const struct rig_params *params, uint64_t seed, uint32_t max_prompt,
                          uint32_t max_tokens, uint64_t *ret_rows)
{
    static struct outcome outcomes[N_REQUESTS];
    static struct random_request requests[N_REQUESTS];
    struct rig rig;
    struct rng rng;

    rng_seed(&rng, seed);
    rig_init(&rig, params);
    *ret_rows = 0;
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        random_request(&requests[i], seed * 1000 + i, max_prompt, max_tokens);
        outcomes[i] = (struct outcome){.n_choices = requests[i].q.n_choices};
        requests[i].q.user = &outcomes[i];
        outcomes[i].id = rig_submit(&rig, &requests[i].q);
        for (uint32_t k = rng_u32(&rng) % 4; k > 0; k--)
            sched_tick(rig.sched);
        rig_collect(&rig, outcomes, N_REQUESTS);
    }
    rig_finish(&rig, outcomes, N_REQUESTS);
    *ret_rows = rig.sched->stats.n_prompt_tokens;
    assert_int_equal(rig.sched->stats.n_requests, N_REQUESTS);
    assert_int_equal(rig.sched->stats.n_finished, N_REQUESTS);
    assert_int_equal(rig.sched->stats.n_running + rig.sched->stats.n_waiting, 0);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct outcome alone;

        rig_alone(&params->null, params->n_ctx, &requests[i].q, &alone);
        outcomes_equal(&outcomes[i], &alone);
        outcome_done(&alone);
        outcome_done(&outcomes[i]);
    }
    rig_done(&rig);
}

TEST(a_request_gives_the_same_result_alone_and_beside_others)
{
    for (uint64_t seed = 1; seed < 6; seed++) {
        const struct rig_params params = {.null = plain_null, .n_ctx = 100};
        uint64_t rows;

        check_joining(&params, seed, 60, 30, &rows);
    }
}

TEST(cut_prompts_and_few_rows_change_nothing)
{
    for (uint64_t seed = 1; seed < 6; seed++) {
        const struct rig_params params = {
            .null = plain_null, .n_ctx = 100, .max_rows = 8 + (uint32_t)seed, .max_seqs = 5};
        uint64_t rows;

        check_joining(&params, 10 + seed, 60, 30, &rows);
    }
}

TEST(preemption_changes_nothing)
{
    const struct rig_params roomy = {.null = plain_null, .n_ctx = 64};

    for (uint64_t seed = 1; seed < 8; seed++) {
        /* 16 blocks hold one sequence of full length. */
        const struct rig_params tight = {
            .null = plain_null, .n_ctx = 64, .n_blocks = 15 + (uint32_t)seed};
        uint64_t rows_roomy, rows_tight;

        check_joining(&roomy, 20 + seed, 20, 40, &rows_roomy);
        check_joining(&tight, 20 + seed, 20, 40, &rows_tight);
        assert_true(rows_tight > rows_roomy);
    }
}

TEST(choices_share_the_prompt_and_have_seeds_of_their_own)
{
    struct random_request r;
    struct outcome many, one;
    uint64_t rows;

    random_request(&r, 3, 64, 20);
    r.q.n_tokens = 61;
    r.q.max_tokens = 20;
    r.q.n_choices = 5;
    r.q.sampling.temperature = 1;
    for (uint32_t max_seqs = 2; max_seqs < 7; max_seqs += 2) {
        const struct rig_params params = {.null = plain_null, .max_seqs = max_seqs};
        struct rig rig;

        many = (struct outcome){.n_choices = 5};
        r.q.user = &many;
        rig_init(&rig, &params);
        many.id = rig_submit(&rig, &r.q);
        rig_finish(&rig, &many, 1);
        rows = rig.sched->stats.n_prompt_tokens;
        /* The whole prompt is computed once; its last token is also computed for each of the other
         * choices. */
        if (max_seqs >= 5)
            assert_int_equal(rows, 61 + 4);
        rig_done(&rig);
        for (uint32_t i = 0; i < 5; i++) {
            struct inf_request q = r.q;

            q.n_choices = 1;
            q.sampling.seed += i;
            rig_alone(&plain_null, 0, &q, &one);
            assert_int_equal(one.choices[0].text.len, many.choices[i].text.len);
            assert_memory_equal(one.choices[0].text.data, many.choices[i].text.data,
                                one.choices[0].text.len);
            outcome_done(&one);
        }
        outcome_done(&many);
    }
}

/* Generates the text @data, one byte per token, after any prompt of 3 tokens, then ends. */
static void scripted(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    const char *script = data;
    const size_t i = row->pos >= 2 ? row->pos - 2 : 0;

    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = 0;
    logits[i < strlen(script) ? (unsigned char)script[i] : FAKE_EOS] = 10;
}

static void run_script(const char *script, const struct inf_request *q, struct outcome *o)
{
    const struct null_options null = {.logits = scripted, .data = (void *)(uintptr_t)script};
    static const int32_t prompt[] = {'a', 'b', 'c'};
    struct inf_request copy = *q;

    copy.tokens = prompt;
    copy.n_tokens = 3;
    rig_alone(&null, 64, &copy, o);
}

TEST(each_end_is_reported_with_its_reason)
{
    static const char script[] = "Hello STOP there";
    const struct inf_stop stops[] = {{"xyz", 3}, {"STOP", 4}};
    struct outcome o;

    run_script(script, &(struct inf_request){.n_logprobs = -1}, &o);
    ASSERT_STREQ(o.choices[0].text.data, script);
    assert_int_equal(o.choices[0].finish, INF_FINISH_STOP);
    assert_int_equal(o.choices[0].n_generated, strlen(script) + 1);
    assert_int_equal(o.choices[0].n_tokens, strlen(script));
    outcome_done(&o);

    run_script(script, &(struct inf_request){.stops = stops, .n_stops = 2, .n_logprobs = -1}, &o);
    ASSERT_STREQ(o.choices[0].text.data, "Hello ");
    assert_int_equal(o.choices[0].finish, INF_FINISH_STOP_TEXT);
    assert_int_equal(o.choices[0].stop_index, 1);
    assert_int_equal(o.choices[0].n_generated, 10);
    assert_int_equal(o.choices[0].n_tokens, 6);
    outcome_done(&o);

    /* The start of a stop string that max_tokens cuts off is part of the text. */
    run_script(
        script,
        &(struct inf_request){.stops = stops, .n_stops = 2, .n_logprobs = -1, .max_tokens = 9}, &o);
    ASSERT_STREQ(o.choices[0].text.data, "Hello STO");
    assert_int_equal(o.choices[0].finish, INF_FINISH_LENGTH);
    outcome_done(&o);

    run_script(script, &(struct inf_request){.ignore_eos = true, .n_logprobs = -1}, &o);
    assert_int_equal(o.choices[0].finish, INF_FINISH_LENGTH);
    assert_int_equal(o.choices[0].n_generated, 61);
    assert_int_equal(o.choices[0].text.len, strlen(script));
    outcome_done(&o);
}

TEST(split_code_points_are_emitted_whole)
{
    struct outcome o;

    run_script("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80 \xc3", &(struct inf_request){.n_logprobs = 0},
               &o);
    ASSERT_STREQ(o.choices[0].text.data, "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80 \xef\xbf\xbd");
    assert_int_equal(o.choices[0].n_tokens, 12);
    outcome_done(&o);
}

TEST(a_bad_row_ends_its_request_alone)
{
    const struct rig_params params = {.null = {.has_nan_token = true, .nan_token = 'N'}};
    static const int32_t good[] = {1, 2, 3}, bad[] = {1, 2, 'N'};
    struct outcome outcomes[2] = {{.n_choices = 1}, {.n_choices = 2}};
    struct inf_logit_bias bias = {'N', -100};
    struct inf_request q = {.n_tokens = 3,
                            .max_tokens = 10,
                            .n_logprobs = 2,
                            .ignore_eos = true,
                            .sampling = {.logit_bias = &bias, .n_logit_bias = 1}};
    struct rig rig;

    rig_init(&rig, &params);
    q.tokens = good;
    q.user = &outcomes[0];
    outcomes[0].id = rig_submit(&rig, &q);
    q.tokens = bad;
    q.n_choices = 2;
    q.user = &outcomes[1];
    outcomes[1].id = rig_submit(&rig, &q);
    rig_finish(&rig, outcomes, 2);
    assert_int_equal(outcomes[0].choices[0].finish, INF_FINISH_LENGTH);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(outcomes[1].choices[i].finish, INF_FINISH_ERROR);
        assert_int_not_equal(outcomes[1].choices[i].error[0], 0);
    }
    assert_int_equal(rig.sched->stats.n_errors, 2);
    outcome_done(&outcomes[0]);
    outcome_done(&outcomes[1]);
    rig_done(&rig);
}

TEST(a_failed_device_ends_running_requests_and_the_next_one_succeeds)
{
    const struct rig_params params = {.null = {.seed = 1, .fail_step = 4}};
    static const int32_t prompt[] = {1, 2, 3};
    struct outcome outcomes[2] = {{.n_choices = 1}, {.n_choices = 1}};
    struct inf_request q = {
        .tokens = prompt, .n_tokens = 3, .max_tokens = 10, .n_logprobs = -1, .ignore_eos = true};
    struct rig rig;

    rig_init(&rig, &params);
    for (uint32_t i = 0; i < 2; i++) {
        q.user = &outcomes[i];
        outcomes[i].id = rig_submit(&rig, &q);
        rig_finish(&rig, outcomes, 2);
    }
    assert_int_equal(outcomes[0].choices[0].finish, INF_FINISH_ERROR);
    assert_int_equal(outcomes[0].choices[0].n_generated, 3);
    assert_int_equal(outcomes[1].choices[0].finish, INF_FINISH_LENGTH);
    outcome_done(&outcomes[0]);
    outcome_done(&outcomes[1]);
    rig_done(&rig);
}

TEST(the_queue_has_a_limit)
{
    const struct rig_params params = {.null = plain_null, .max_seqs = 2, .max_queue = 3};
    static const int32_t prompt[] = {1, 2, 3};
    struct outcome outcomes[6] = {0};
    struct inf_request q = {.tokens = prompt, .n_tokens = 3, .max_tokens = 5, .n_logprobs = -1};
    struct inf_engine_stats stats;
    struct rig rig;
    uint64_t id;

    rig_init(&rig, &params);
    for (uint32_t i = 0; i < 5; i++) {
        outcomes[i].n_choices = 1;
        q.user = &outcomes[i];
        outcomes[i].id = rig_submit(&rig, &q);
    }
    assert_int_equal(sched_submit(rig.sched, &q, &id), INF_ENGINE_FULL);
    sched_tick(rig.sched);
    sched_stats(rig.sched, &stats);
    assert_int_equal(stats.n_running, 2);
    assert_int_equal(stats.n_waiting, 3);
    assert_int_equal(sched_submit(rig.sched, &q, &id), INF_ENGINE_FULL);
    rig_finish(&rig, outcomes, 6);
    sched_stats(rig.sched, &stats);
    assert_int_equal(stats.n_rejected, 2);
    assert_int_equal(stats.n_requests, 5);
    outcomes[5].n_choices = 1;
    q.user = &outcomes[5];
    outcomes[5].id = rig_submit(&rig, &q);
    rig_finish(&rig, outcomes, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(outcomes[i].choices[0].finished);
        outcome_done(&outcomes[i]);
    }
    rig_done(&rig);
}

TEST(the_eventfd_is_readable_while_events_wait)
{
    const struct rig_params params = {.null = plain_null};
    static const int32_t prompt[] = {1, 2, 3};
    struct outcome o = {.n_choices = 1};
    const struct inf_request q = {
        .tokens = prompt, .n_tokens = 3, .max_tokens = 3, .n_logprobs = -1, .user = &o};
    struct inf_event event;
    struct pollfd fd;
    struct rig rig;
    unsigned n = 0;

    rig_init(&rig, &params);
    fd = (struct pollfd){.fd = rig.sched->events.fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
    o.id = rig_submit(&rig, &q);
    while (sched_tick(rig.sched))
        ;
    for (;; n++) {
        assert_int_equal(poll(&fd, 1, 0), 1);
        if (!events_next(&rig.sched->events, &event))
            break;
    }
    assert_true(n >= 3);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(events_next(&rig.sched->events, &event), 0);
    rig_done(&rig);
}

/* The memory of a large log of events is freed when all events were read. */
TEST(many_unread_events_are_read_and_their_memory_is_freed)
{
    enum { N = 3000 };
    const struct rig_params params = {.null = plain_null, .n_ctx = N + 10};
    static const int32_t prompt[] = {1, 2, 3};
    static struct outcome o = {.n_choices = 4};
    const struct inf_request q = {.tokens = prompt,
                                  .n_tokens = 3,
                                  .max_tokens = N,
                                  .n_choices = 4,
                                  .n_logprobs = 20,
                                  .ignore_eos = true,
                                  .user = &o};
    struct inf_event event;
    struct rig rig;
    unsigned n = 0;

    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &q);
    while (sched_tick(rig.sched))
        ;
    assert_true(rig.sched->events.pending.len > 1u << 20);
    while (events_next(&rig.sched->events, &event))
        n++;
    assert_true(n > N);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(events_next(&rig.sched->events, &event), 0);
    rig_done(&rig);
}

static bool is_live(const struct outcome *o)
{
    return o->id != 0 && o->n_finished < o->n_choices;
}

/* Requests are canceled at random moments: while they wait, during their prompt, while they decode,
 * or after their end. */
TEST(ten_thousand_cancellations_leave_nothing_behind)
{
    enum { N = 40 };
    static struct outcome outcomes[N];
    static struct random_request requests[N];
    const struct rig_params params = {
        .null = plain_null, .n_ctx = 64, .n_blocks = 24, .max_seqs = 4, .max_rows = 16};
    struct rig rig;
    struct rng rng;
    uint32_t n_submitted = 0;

    rng_seed(&rng, 6);
    rig_init(&rig, &params);
    for (uint32_t n = 0; n < 10000;) {
        const uint32_t i = rng_u32(&rng) % N;
        struct outcome *o = &outcomes[i];

        if (!is_live(o)) {
            outcome_done(o);
            random_request(&requests[i], n_submitted, 50, 50);
            *o = (struct outcome){.n_choices = requests[i].q.n_choices};
            requests[i].q.user = o;
            o->id = rig_submit(&rig, &requests[i].q);
            n_submitted++;
        } else {
            sched_cancel(rig.sched, o->id);
            n++;
        }
        if (rng_u32(&rng) % 3 == 0)
            sched_tick(rig.sched);
        if (rng_u32(&rng) % 2)
            rig_collect(&rig, outcomes, N);
    }
    for (uint32_t i = 0; i < N; i++)
        if (is_live(&outcomes[i]))
            sched_cancel(rig.sched, outcomes[i].id);
    rig_finish(&rig, outcomes, N);
    assert_int_equal(rig.sched->stats.n_requests, n_submitted);
    assert_int_equal(rig.sched->stats.n_finished, n_submitted);
    assert_int_equal(rig.sched->n_queued + rig.sched->n_active, 0);
    for (uint32_t i = 0; i < N; i++)
        outcome_done(&outcomes[i]);
    rig_done(&rig);
}

TEST(a_cancelled_request_says_nothing_more)
{
    const struct rig_params params = {.null = plain_null};
    struct random_request r;
    struct outcome o = {.n_choices = 2};
    struct rig rig;

    random_request(&r, 1, 10, 10);
    r.q.n_choices = 2;
    r.q.max_tokens = 50;
    r.q.ignore_eos = true;
    r.q.n_stops = 0;
    r.q.user = &o;
    rig_init(&rig, &params);
    o.id = rig_submit(&rig, &r.q);
    for (unsigned i = 0; i < 20; i++)
        sched_tick(rig.sched);
    sched_cancel(rig.sched, 12345);
    sched_cancel(rig.sched, o.id);
    rig_finish(&rig, &o, 1);
    /* Unread events are dropped, except the end events. */
    assert_int_equal(o.choices[0].n_events, 1);
    assert_int_equal(o.choices[1].n_events, 1);
    assert_int_equal(o.choices[0].finish, INF_FINISH_CANCELLED);
    assert_int_equal(rig.sched->stats.n_cancelled, 1);
    outcome_done(&o);
    rig_done(&rig);
}

/* On this device a row takes a tenth of the time of a step, so about a dozen rows slow a stream
 * down as much as is allowed. Sleeping takes longer on a busy machine, so the limits of
 * this test are wide. */
TEST(a_stream_goes_on_while_a_long_prompt_is_read)
{
    enum { N = 600 };
    static int32_t tokens[N];
    static struct outcome o[2];
    const struct rig_params params = {.null = {.step_usec = 2000, .row_usec = 200},
                                      .n_ctx = N + 10,
                                      .max_seqs = 2,
                                      .max_rows = 512};
    struct inf_request stream = {.tokens = tokens, .n_tokens = 1, .ignore_eos = true},
                       prompt = {.tokens = tokens, .n_tokens = N, .max_tokens = 1};
    const struct step *step;
    unsigned n_mixed = 0, n_large = 0;
    struct rig rig;

    stream.n_logprobs = prompt.n_logprobs = -1;
    rig_init(&rig, &params);
    step = &rig.sched->step;
    for (unsigned i = 0; i < 2; i++)
        o[i] = (struct outcome){.n_choices = 1};
    stream.user = &o[0];
    o[0].id = rig_submit(&rig, &stream);
    for (unsigned i = 0; i < 10; i++)
        sched_tick(rig.sched);
    prompt.user = &o[1];
    o[1].id = rig_submit(&rig, &prompt);
    while (o[1].n_finished == 0) {
        assert_true(sched_tick(rig.sched));
        rig_collect(&rig, o, 2);
        /* The stream is part of every step. */
        assert_true(step->n_decode_rows >= 1);
        n_mixed += step->n_prompt_rows > 0;
        n_large += step->n_prompt_rows > 40;
    }
    assert_true(n_mixed >= 10 && n_mixed <= N / BATCH_MIN_MIXED);
    assert_true(n_large <= n_mixed / 4);
    sched_cancel(rig.sched, o[0].id);
    rig_finish(&rig, o, 2);
    for (unsigned i = 0; i < 2; i++)
        outcome_done(&o[i]);
    rig_done(&rig);
}

RUN_TESTS(cmocka_unit_test(a_request_gives_the_same_result_alone_and_beside_others),
          cmocka_unit_test(cut_prompts_and_few_rows_change_nothing),
          cmocka_unit_test(preemption_changes_nothing),
          cmocka_unit_test(choices_share_the_prompt_and_have_seeds_of_their_own),
          cmocka_unit_test(each_end_is_reported_with_its_reason),
          cmocka_unit_test(split_code_points_are_emitted_whole),
          cmocka_unit_test(a_bad_row_ends_its_request_alone),
          cmocka_unit_test(a_failed_device_ends_running_requests_and_the_next_one_succeeds),
          cmocka_unit_test(the_queue_has_a_limit),
          cmocka_unit_test(the_eventfd_is_readable_while_events_wait),
          cmocka_unit_test(many_unread_events_are_read_and_their_memory_is_freed),
          cmocka_unit_test(ten_thousand_cancellations_leave_nothing_behind),
          cmocka_unit_test(a_cancelled_request_says_nothing_more),
          cmocka_unit_test(a_stream_goes_on_while_a_long_prompt_is_read))
