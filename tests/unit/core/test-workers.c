/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workers.h"

#include "lib/test.h"

enum { MAX_THREADS = 9, N_BARRIERS = 50 };

struct job {
    struct workers *w;
    unsigned seen[MAX_THREADS]; /* element i is written only by thread i */
    unsigned cells[MAX_THREADS];
    bool good[MAX_THREADS];
};

static void count_threads(void *arg, unsigned i, unsigned n)
{
    struct job *j = arg;

    j->seen[i] += n;
}

/* After each barrier every thread must see what all others wrote before it. */
static void meet(void *arg, unsigned i, unsigned n)
{
    struct job *j = arg;

    j->good[i] = true;
    for (unsigned round = 1; round <= N_BARRIERS; round++) {
        j->cells[i] = round;
        workers_barrier(j->w);
        for (unsigned t = 0; t < n; t++)
            if (j->cells[t] != round)
                j->good[i] = false;
        workers_barrier(j->w);
    }
}

TEST(every_thread_runs_once_per_run)
{
    for (unsigned n = 1; n <= MAX_THREADS; n += 2) {
        struct job j = {0};

        ASSERT_OK(workers_new(n, &j.w));
        assert_int_equal(workers_count(j.w), n);
        for (unsigned run = 0; run < 100; run++)
            workers_run(j.w, count_threads, &j);
        for (unsigned i = 0; i < MAX_THREADS; i++)
            assert_int_equal(j.seen[i], i < n ? 100 * n : 0);
        assert_null(workers_free(j.w));
    }
}

TEST(barriers_order_memory_with_few_and_with_too_many_threads)
{
    for (unsigned n = 1; n <= MAX_THREADS; n += 4) {
        struct job j = {0};

        ASSERT_OK(workers_new(n, &j.w));
        for (unsigned run = 0; run < 20; run++)
            workers_run(j.w, meet, &j);
        for (unsigned i = 0; i < n; i++)
            assert_true(j.good[i]);
        workers_free(j.w);
    }
}

TEST(threads_that_slept_wake_up)
{
    struct job j = {0};

    ASSERT_OK(workers_new(3, &j.w));
    for (unsigned run = 0; run < 5; run++) {
        usleep(2000);
        workers_run(j.w, count_threads, &j);
    }
    assert_int_equal(j.seen[2], 15);
    workers_free(j.w);
}

TEST(a_pool_may_be_freed_unused)
{
    struct workers *w;

    ASSERT_OK(workers_new(4, &w));
    workers_free(w);
    workers_free(NULL);
}

RUN_TESTS(cmocka_unit_test(every_thread_runs_once_per_run),
          cmocka_unit_test(barriers_order_memory_with_few_and_with_too_many_threads),
          cmocka_unit_test(threads_that_slept_wake_up),
          cmocka_unit_test(a_pool_may_be_freed_unused))
