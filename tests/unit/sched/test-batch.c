/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the batch policy, which decides how many rows of each sequence a step computes: with a
 * table of cases, and with random demands. */
#include "lib/test.h"

#include "core/macros.h"
#include "core/rng.h"
#include "sched/batch.h"

#define MAX_N 8

struct row {
    const char *name;
    struct batch_limits limits;
    uint32_t turn, n;
    struct batch_want wants[MAX_N];
    uint32_t rows[MAX_N];
};

static const struct row table[] = {
    {"decoding alone", {512, 32, 512}, 0, 3, {{1, 0}, {1, 0}, {1, 0}}, {1, 1, 1}},
    {"a short prompt fits", {512, 32, 512}, 0, 1, {{100, 0}}, {100}},
    {"a long prompt is cut", {512, 32, 512}, 0, 1, {{1000, 0}}, {512}},
    {"the chunk cuts, too", {512, 32, 64}, 0, 2, {{1000, 0}, {1, 0}}, {64, 1}},
    {"decoding goes first", {64, 32, 64}, 0, 3, {{1, 0}, {1000, 0}, {1, 0}}, {1, 62, 1}},
    {"prompts share", {512, 32, 512}, 0, 2, {{1000, 0}, {1000, 0}}, {256, 256}},
    {"what one leaves the other takes", {512, 32, 512}, 0, 2, {{10, 0}, {1000, 0}}, {10, 502}},
    {"small parts are left out", {64, 32, 64}, 0, 3, {{99, 0}, {99, 0}, {99, 0}}, {32, 32, 0}},
    {"and the turn moves on", {64, 32, 64}, 8, 3, {{99, 0}, {99, 0}, {99, 0}}, {0, 32, 32}},
    {"the first of equal prompts", {64, 32, 64}, 1, 3, {{99, 0}, {99, 0}, {99, 0}}, {64, 0, 0}},
    {"the shortest prompt first", {64, 32, 64}, 1, 3, {{99, 0}, {1, 0}, {40, 0}}, {23, 1, 40}},
    {"a mark of the shortest", {64, 32, 64}, 1, 3, {{80, 0}, {60, 0, 16}, {70, 0}}, {0, 16, 48}},
    {"logits of the shortest", {512, 22, 512}, 1, 3, {{99, 98}, {50, 49}, {1, 0}}, {1, 20, 1}},
    {"logits of a prompt are bounded", {512, 20, 512}, 0, 1, {{100, 99}}, {20}},
    {"the last rows of it", {512, 20, 512}, 0, 1, {{5, 4}}, {5}},
    {"logits beside others", {512, 20, 512}, 0, 3, {{100, 99}, {1, 0}, {100, 0}}, {18, 1, 100}},
    {"decoding is measured alone", {512, 32, 0}, 0, 2, {{1000, 0}, {1, 0}}, {0, 1}},
    {"no logits to spare", {512, 2, 512}, 0, 2, {{100, 99}, {1, 0}}, {1, 1}},
    {"a mark ends the part", {512, 32, 512}, 0, 1, {{1000, 0, 192}}, {192}},
    {"and leaves rows to others", {512, 32, 512}, 0, 2, {{1000, 0, 64}, {1000, 0}}, {64, 448}},
    {"a mark behind the part", {512, 32, 512}, 0, 2, {{1000, 0, 300}, {1000, 0}}, {256, 256}},
};

TEST(cases)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct row *t = &table[i];
        uint32_t rows[MAX_N] = {0};

        batch_plan(t->wants, t->n, &t->limits, t->turn, rows);
        for (uint32_t k = 0; k < t->n; k++)
            if (rows[k] != t->rows[k])
                fail_msg("%s: sequence %u has %u rows, expected %u", t->name, k, rows[k],
                         t->rows[k]);
    }
}

/* Limits hold, decoding never waits, and every prompt finishes within a bounded number of steps. */
TEST(random_demands_keep_the_limits_and_none_starves)
{
    struct rng rng;

    rng_seed(&rng, 4);
    for (unsigned round = 0; round < 2000; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % MAX_N;
        struct batch_limits limits = {n + rng_u32(&rng) % 100, n + rng_u32(&rng) % 10,
                                      1 + rng_u32(&rng) % 100};
        struct batch_want wants[MAX_N];
        uint32_t left = 0, turn = rng_u32(&rng);

        for (uint32_t i = 0; i < n; i++) {
            const uint32_t n_left = 1 + rng_u32(&rng) % (rng_u32(&rng) % 2 ? 200 : 1);

            wants[i] = (struct batch_want){n_left, rng_u32(&rng) % 3 == 0 ? n_left - 1 : 0,
                                           rng_u32(&rng) % 3 == 0 ? 1 + rng_u32(&rng) % 50 : 0};
            left += n_left;
        }
        for (unsigned steps = 0; left > n; steps++) {
            uint32_t rows[MAX_N], n_rows = 0, n_logits = 0;

            assert_true(steps < 3000);
            batch_plan(wants, n, &limits, turn++, rows);
            left = 0;
            for (uint32_t i = 0; i < n; i++) {
                assert_true(rows[i] <= wants[i].n_left);
                assert_true(wants[i].n_max == 0 || rows[i] <= wants[i].n_max);
                if (wants[i].n_left == 1)
                    assert_int_equal(rows[i], 1);
                n_rows += rows[i];
                n_logits += MIN(rows[i], wants[i].n_logits) + (rows[i] == wants[i].n_left);
                if (wants[i].n_left == 1)
                    rows[i] = 0;
                wants[i].n_left -= MIN(rows[i], wants[i].n_left - 1);
                wants[i].n_logits -= MIN(rows[i], wants[i].n_logits);
                left += wants[i].n_left;
            }
            assert_true(n_rows > 0 && n_rows <= limits.max_rows);
            assert_true(n_logits <= limits.max_logits);
        }
    }
}

static uint32_t chunk_after(struct batch_pace *pace, uint32_t max_rows, uint64_t row_usec,
                            unsigned n_steps)
{
    for (unsigned i = 0; i < n_steps; i++) {
        const uint32_t chunk = batch_pace_chunk(pace, 0, 1, max_rows);

        batch_pace_note(pace, 0, chunk, max_rows, row_usec * chunk);
    }
    return batch_pace_chunk(pace, 0, 1, max_rows);
}

TEST(chunks_of_prompts_alone_follow_the_speed)
{
    struct batch_pace pace = {0};

    /* If a row takes 10 us, the chunk has the maximum size. */
    assert_int_equal(chunk_after(&pace, 512, 10, 10), 512);
    /* If a row takes 2 ms, the chunk has 100 rows, rounded to whole tiles. */
    assert_int_equal(chunk_after(&pace, 512, 2000, 10), 96);
    /* Steps whose last chunk is small do not change the estimate, however long a row of such a step
     * took. */
    batch_pace_note(&pace, 0, 3, 512, 1);
    batch_pace_note(&pace, 0, 3, 512, 100000);
    assert_int_equal(batch_pace_chunk(&pace, 0, 1, 512), 96);
    /* If a row takes a second, the chunk has the minimum size. */
    assert_int_equal(chunk_after(&pace, 512, 1000000, 1), BATCH_MIN_CHUNK);
    assert_int_equal(chunk_after(&pace, 16, 1000000, 1), 16);
}

/*
 * Struct machine is a simple model of a machine, in nanoseconds: a step takes a fixed time, plus a
 * time per row, plus a time per position that a row attends to.
 */
struct machine {
    uint64_t step, row, look;
};

static uint64_t step_usec(const struct machine *m, uint32_t n_decode, uint32_t ctx,
                          uint32_t n_prompt, uint32_t pos)
{
    const uint64_t looks = (uint64_t)n_decode * ctx + (uint64_t)n_prompt * (pos + n_prompt / 2);

    return (m->step + m->row * (n_decode + n_prompt) + m->look * looks) / 1000;
}

/* Simulates prompts that run one after another, while @n_decode streams generate text. Returns how
 * many of a thousand steps took more than three times as long as a step of the streams alone. */
static unsigned run_beside(const struct machine *m, uint32_t n_decode, uint32_t n_prompt,
                           unsigned n_prompts, double *ret_share)
{
    struct batch_pace pace = {0};
    uint64_t total = 0, lone = 0;
    unsigned n_slow = 0, n_steps = 0;
    uint32_t ctx = 100;

    for (unsigned i = 0; i < 20; i++)
        batch_pace_note(&pace, n_decode, 0, 512, step_usec(m, n_decode, ctx++, 0, 0));
    for (unsigned i = 0; i < n_prompts; i++)
        for (uint32_t pos = 0; pos < n_prompt; n_steps++) {
            const uint32_t chunk = batch_pace_chunk(&pace, n_decode, 1, 512 - n_decode);
            const uint32_t rows = MIN(chunk, n_prompt - pos);
            const uint64_t usec = step_usec(m, n_decode, ctx++, rows, pos);

            assert_true(n_steps < 100000);
            batch_pace_note(&pace, n_decode, rows, 512, usec);
            n_slow += usec > 3 * step_usec(m, n_decode, ctx, 0, 0);
            total += usec;
            pos += rows;
        }
    for (unsigned i = 0; i < n_prompts; i++)
        for (uint32_t pos = 0; pos < n_prompt; pos += 128)
            lone += step_usec(m, 0, 0, 128, pos);
    *ret_share = (double)lone / (double)total;
    return 1000 * n_slow / n_steps;
}

TEST(streams_flow_evenly_beside_prompts)
{
    static const struct machine machines[] = {
        {10000000, 1500000, 300}, /* a small model on two cores */
        {20000000, 1000000, 100}, /* memory that is slower than arithmetic */
        {150000000, 20000000, 2000} /* a large model */,
        {100000, 10000, 1},    /* a tiny model */
        {10000000, 50000, 10}, /* many cores */
    };
    static const uint32_t n_decode[] = {1, 3, 15};

    for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
        for (size_t k = 0; k < ARRAY_SIZE(n_decode); k++) {
            double share;
            const unsigned slow = run_beside(&machines[i], n_decode[k], 3000, 5, &share);

            if (slow > 5)
                fail_msg("machine %zu, %u streams: %u of 1000 steps are slow", i, n_decode[k],
                         slow);
            /* Prompts progress at a third of their speed without streams, or faster. */
            if (share < 0.33)
                fail_msg("machine %zu, %u streams: prompts have %.2f of their speed", i,
                         n_decode[k], share);
        }
}

TEST(the_time_of_decoding_is_measured_first_and_again)
{
    struct batch_pace pace = {0};

    /* Decoding is measured first because its time is not known yet, and again for another number of
     * streams. */
    for (uint32_t n = 1; n <= 2; n++) {
        for (unsigned i = 0; i < BATCH_MEASURE; i++) {
            assert_int_equal(batch_pace_chunk(&pace, n, 1, 512), 0);
            batch_pace_note(&pace, n, 0, 512, 10000);
        }
        assert_true(batch_pace_chunk(&pace, n, 1, 512) >= BATCH_MIN_MIXED);
    }
    for (unsigned i = 0; i < BATCH_REFRESH; i++) {
        assert_true(batch_pace_chunk(&pace, 3, 1, 512) > 0);
        batch_pace_note(&pace, 3, 8, 512, 20000);
    }
    assert_int_equal(batch_pace_chunk(&pace, 3, 1, 512), 0);
    /* One slow step does not change the estimate, but one fast step does. */
    batch_pace_note(&pace, 3, 0, 512, 1000000);
    assert_true(pace.classes[1].usec < 15000);
    batch_pace_note(&pace, 3, 0, 512, 2000);
    assert_true(pace.classes[1].usec == 2000);
    /* Old estimates are measured again. Recent estimates are kept, even if steps with other numbers
     * of streams ran in between. */
    for (unsigned i = 0; i < BATCH_FORGET; i++) {
        assert_true(batch_pace_chunk(&pace, 3, 1, 512) > 0);
        batch_pace_note(&pace, 1, 0, 512, 2000);
    }
    batch_pace_note(&pace, 1, 0, 512, 2000);
    for (unsigned i = 0; i < BATCH_MEASURE; i++) {
        assert_int_equal(batch_pace_chunk(&pace, 3, 1, 512), 0);
        batch_pace_note(&pace, 3, 0, 512, 50000);
    }
    assert_true(pace.classes[1].usec == 50000);
}

TEST(many_waiting_prompts_get_more_rows_than_one)
{
    struct batch_pace pace = {.row_usec = 500};
    uint32_t last = 0;

    for (unsigned i = 0; i < BATCH_MEASURE; i++)
        batch_pace_note(&pace, 1, 0, 512, 10000);
    for (uint32_t n_prompts = 1; n_prompts <= 4; n_prompts *= 2) {
        const uint32_t chunk = batch_pace_chunk(&pace, 1, n_prompts, 512);

        assert_true(chunk > last);
        last = chunk;
    }
    assert_int_equal(batch_pace_chunk(&pace, 1, 100, 512), last); /* streams continue smoothly */
}

RUN_TESTS(cmocka_unit_test(cases),
          cmocka_unit_test(random_demands_keep_the_limits_and_none_starves),
          cmocka_unit_test(chunks_of_prompts_alone_follow_the_speed),
          cmocka_unit_test(streams_flow_evenly_beside_prompts),
          cmocka_unit_test(the_time_of_decoding_is_measured_first_and_again),
          cmocka_unit_test(many_waiting_prompts_get_more_rows_than_one))
