/* SPDX-License-Identifier: Apache-2.0 */
/* The batch policy: a table of cases, then properties under random wants. */
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
    {"small parts are no parts", {64, 32, 64}, 0, 3, {{99, 0}, {99, 0}, {99, 0}}, {32, 32, 0}},
    {"and the turn moves on", {64, 32, 64}, 1, 3, {{99, 0}, {99, 0}, {99, 0}}, {0, 32, 32}},
    {"logits of a prompt are bounded", {512, 20, 512}, 0, 1, {{100, 99}}, {20}},
    {"the last rows of it", {512, 20, 512}, 0, 1, {{5, 4}}, {5}},
    {"logits beside others", {512, 20, 512}, 0, 3, {{100, 99}, {1, 0}, {100, 0}}, {18, 1, 100}},
    {"no logits to spare", {512, 2, 512}, 0, 2, {{100, 99}, {1, 0}}, {1, 1}},
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

/* Limits hold, decoding never waits, and every prompt comes to its end in bounded turns. */
TEST(random_wants_keep_the_limits_and_none_starves)
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

            wants[i] = (struct batch_want){n_left, rng_u32(&rng) % 3 == 0 ? n_left - 1 : 0};
            left += n_left;
        }
        for (unsigned steps = 0; left > n; steps++) {
            uint32_t rows[MAX_N], n_rows = 0, n_logits = 0;

            assert_true(steps < 3000);
            batch_plan(wants, n, &limits, turn++, rows);
            left = 0;
            for (uint32_t i = 0; i < n; i++) {
                assert_true(rows[i] <= wants[i].n_left);
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

TEST(chunks_follow_the_speed)
{
    uint32_t chunk = 64;

    /* 10 µs a row: up to the limit. */
    for (unsigned i = 0; i < 10; i++)
        chunk = batch_next_chunk(chunk, 512, chunk, 10 * chunk);
    assert_int_equal(chunk, 512);
    /* 1 ms a row: 80 rows, in whole tiles. */
    for (unsigned i = 0; i < 10; i++)
        chunk = batch_next_chunk(chunk, 512, chunk, 1000 * (uint64_t)chunk);
    assert_int_equal(chunk, 64);
    /* A second a row: not below the least. */
    chunk = batch_next_chunk(chunk, 512, chunk, 1000000 * (uint64_t)chunk);
    assert_int_equal(chunk, BATCH_MIN_CHUNK);
    assert_int_equal(batch_next_chunk(16, 16, 16, 100000000), 16);
    /* Steps without prompts and small last parts change nothing. */
    assert_int_equal(batch_next_chunk(96, 512, 0, 1), 96);
    assert_int_equal(batch_next_chunk(96, 512, 3, 1), 96);
}

RUN_TESTS(cmocka_unit_test(cases), cmocka_unit_test(random_wants_keep_the_limits_and_none_starves),
          cmocka_unit_test(chunks_follow_the_speed))
