/* SPDX-License-Identifier: Apache-2.0 */
/* Tests lanes of jobs (queues whose jobs run one after the other): which job waits for which other
 * job. A job whose name is a capital letter waits for the test. */
#include "common/service/jobs.h"

#include <pthread.h>
#include <semaphore.h>

#include "common/service/loop.h"
#include "lib/test.h"

enum { MAX_JOBS = 4096 };

struct letter {
    struct job base;
    char name;
};

static struct loop *loop;
static sem_t gate;
static pthread_t main_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char story[MAX_JOBS + 1]; /* names in the order in which jobs ran; under the lock */
static struct letter letters[MAX_JOBS];
static size_t n_queued, n_done, n_wanted;

static void letter_run(struct job *job)
{
    const struct letter *letter = (const struct letter *)(const void *)job;

    assert_false(pthread_equal(pthread_self(), main_thread));
    if (letter->name >= 'A' && letter->name <= 'Z')
        sem_wait(&gate);
    pthread_mutex_lock(&lock);
    strncat(story, &letter->name, 1);
    pthread_mutex_unlock(&lock);
}

static void letter_done(struct job *job)
{
    (void)job;
    assert_true(pthread_equal(pthread_self(), main_thread));
    if (++n_done == n_wanted)
        loop_stop(loop);
}

static void queue(struct jobs *jobs, struct job_lane *lane, const char *names)
{
    for (; *names; names++) {
        struct letter *letter = &letters[n_queued++];

        assert_true(n_queued <= MAX_JOBS);
        *letter = (struct letter){{.run = letter_run, .done = letter_done}, *names};
        jobs_queue(jobs, lane, &letter->base);
    }
}

/* Runs the loop until @n jobs are done. */
static void wait_for(size_t n)
{
    n_wanted = n;
    if (n_done < n)
        ASSERT_OK(loop_run(loop));
    assert_int_equal(n_done, n);
}

static struct jobs *start(unsigned n_threads)
{
    struct jobs *jobs = NULL;

    main_thread = pthread_self();
    story[0] = '\0';
    n_queued = n_done = n_wanted = 0;
    sem_init(&gate, 0, 0);
    ASSERT_OK(loop_new(&loop));
    ASSERT_OK(jobs_new(loop, "test", n_threads, &jobs));
    return jobs;
}

static void end(struct jobs *jobs)
{
    jobs_free(jobs);
    loop_free(loop);
}

TEST(a_lane_keeps_its_order)
{
    struct jobs *jobs = start(4);
    struct job_lane lane = {};

    queue(jobs, &lane, "abcdefghij");
    wait_for(10);
    ASSERT_STREQ(story, "abcdefghij");
    queue(jobs, NULL, "klm");
    wait_for(13);
    ASSERT_STREQ(story, "abcdefghijklm");
    end(jobs);
}

TEST(a_slow_lane_delays_no_other)
{
    struct jobs *jobs = start(2);
    struct job_lane slow = {}, fast = {};

    queue(jobs, &slow, "Axyz");
    queue(jobs, &fast, "abc");
    wait_for(3);
    ASSERT_STREQ(story, "abc");
    sem_post(&gate);
    wait_for(7);
    ASSERT_STREQ(story, "abcAxyz");
    end(jobs);
}

TEST(lanes_take_turns)
{
    struct jobs *jobs = start(1);
    struct job_lane first = {}, second = {}, third = {};

    queue(jobs, NULL, "A"); /* the other jobs are queued while this job waits */
    queue(jobs, &first, "aaaa");
    queue(jobs, &second, "bb");
    queue(jobs, &third, "c");
    sem_post(&gate);
    wait_for(8);
    ASSERT_STREQ(story, "Aabcabaa");
    end(jobs);
}

TEST(jobs_that_wait_at_the_end_are_dropped)
{
    struct jobs *jobs = start(2);
    struct job_lane lanes[2] = {};

    queue(jobs, &lanes[0], "Abc");
    queue(jobs, &lanes[1], "d");
    wait_for(1);
    sem_post(&gate);
    end(jobs);
    assert_int_equal(n_done, 1);
}

TEST(no_job_of_many_is_lost)
{
    struct jobs *jobs = start(5);
    struct job_lane lanes[7] = {};

    for (size_t i = 0; i < MAX_JOBS; i++)
        queue(jobs, &lanes[i % 7], "x");
    wait_for(MAX_JOBS);
    assert_int_equal(strlen(story), MAX_JOBS);
    end(jobs);
}

RUN_TESTS(cmocka_unit_test(a_lane_keeps_its_order), cmocka_unit_test(a_slow_lane_delays_no_other),
          cmocka_unit_test(lanes_take_turns),
          cmocka_unit_test(jobs_that_wait_at_the_end_are_dropped),
          cmocka_unit_test(no_job_of_many_is_lost))
