/* SPDX-License-Identifier: Apache-2.0 */
/* Tests queues, threads that take requests from a queue, and outboxes, which hold results until a
 * caller reads them. */
#include "core/outbox.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/loop-thread.h"
#include "core/macros.h"
#include "lib/test.h"

#define N_ITEMS 1000

struct item {
    struct fifo_link link;
    unsigned value;
};

/* Struct engine has a thread that moves each request to the outbox. */
struct engine {
    struct loop_thread thread;
    struct fifo requests;
    struct outbox results;
    char name[16];
    sigset_t mask;
};

static struct item *item_of(struct fifo_link *link)
{
    return link ? CONTAINER_OF(link, struct item, link) : NULL;
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

TEST(items_leave_a_queue_in_order)
{
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    struct fifo q;

    fifo_init(&q);
    assert_null(fifo_pop(&q));
    for (unsigned i = 0; i < 4; i++)
        fifo_push(&q, &items[i].link);
    fifo_remove(&q, &items[3].link);
    fifo_remove(&q, &items[1].link);
    fifo_push(&q, &items[3].link);
    assert_ptr_equal(fifo_pop(&q), &items[0].link);
    assert_ptr_equal(fifo_pop(&q), &items[2].link);
    assert_ptr_equal(fifo_pop(&q), &items[3].link);
    assert_null(fifo_pop(&q));
    fifo_push(&q, &items[1].link);
    assert_ptr_equal(fifo_pop(&q), &items[1].link);
}

TEST(an_outbox_is_readable_while_it_has_items)
{
    struct item a = {0}, b = {0};
    struct outbox o;

    assert_int_equal(outbox_init(&o), 0);
    assert_false(is_readable(o.fd));
    assert_null(outbox_take(&o));
    outbox_put(&o, &a.link);
    outbox_put(&o, &b.link);
    assert_true(is_readable(o.fd));
    assert_ptr_equal(outbox_take(&o), &a.link);
    assert_true(is_readable(o.fd));
    assert_ptr_equal(outbox_take(&o), &b.link);
    assert_false(is_readable(o.fd));
    outbox_done(&o);
    assert_int_equal(o.fd, -1);
}

TEST(waiting_for_an_outbox_ends_at_its_time)
{
    struct item a = {0};
    struct outbox o;
    uint64_t begin;

    assert_int_equal(outbox_init(&o), 0);
    assert_false(outbox_wait(o.fd, outbox_deadline(0)));
    begin = clock_nsec();
    assert_true(outbox_wait(o.fd, outbox_deadline(20)));
    assert_true(clock_nsec() - begin >= 20 * 1000000u);
    outbox_put(&o, &a.link);
    assert_true(outbox_wait(o.fd, outbox_deadline(-1)));
    outbox_done(&o);
}

static void run_engine(void *arg)
{
    struct engine *e = arg;

    pthread_getname_np(pthread_self(), e->name, sizeof(e->name));
    pthread_sigmask(SIG_SETMASK, NULL, &e->mask);
    loop_thread_lock(&e->thread);
    while (!e->thread.stop) {
        struct fifo_link *link = fifo_pop(&e->requests);

        if (link)
            outbox_put(&e->results, link);
        else
            loop_thread_wait(&e->thread);
    }
    loop_thread_unlock(&e->thread);
}

static struct item *next_result(struct engine *e)
{
    struct fifo_link *link;

    loop_thread_lock(&e->thread);
    link = outbox_take(&e->results);
    loop_thread_unlock(&e->thread);
    return item_of(link);
}

TEST(a_thread_answers_every_request_and_ends)
{
    static struct item items[N_ITEMS];
    struct engine e = {0};

    loop_thread_init(&e.thread);
    fifo_init(&e.requests);
    assert_int_equal(outbox_init(&e.results), 0);
    assert_int_equal(loop_thread_start(&e.thread, "test-engine", run_engine, &e), 0);
    for (unsigned i = 0; i < N_ITEMS; i++) {
        items[i].value = i;
        loop_thread_lock(&e.thread);
        fifo_push(&e.requests, &items[i].link);
        loop_thread_wake(&e.thread);
        loop_thread_unlock(&e.thread);
    }
    for (unsigned i = 0; i < N_ITEMS; i++) {
        struct item *item;

        while (!(item = next_result(&e)))
            assert_true(outbox_wait(e.results.fd, outbox_deadline(60000)));
        assert_int_equal(item->value, i);
    }
    loop_thread_stop(&e.thread);
    loop_thread_stop(&e.thread); /* a second call does nothing */
    loop_thread_done(&e.thread);
    outbox_done(&e.results);
    ASSERT_STREQ(e.name, "test-engine");
    assert_true(sigismember(&e.mask, SIGTERM));
    assert_false(sigismember(&e.mask, SIGSEGV));
}

TEST(a_thread_that_was_not_started_can_be_ended)
{
    struct loop_thread t;

    loop_thread_init(&t);
    loop_thread_stop(&t);
    loop_thread_done(&t);
}

TEST(a_wait_ends_at_its_time)
{
    struct loop_thread t;
    const uint64_t begin = clock_usec(), end = begin + 20000;

    loop_thread_init(&t);
    loop_thread_lock(&t);
    while (loop_thread_wait_until(&t, end))
        ;
    assert_true(clock_usec() >= end);
    assert_false(loop_thread_wait_until(&t, 0)); /* a time in the past */
    loop_thread_unlock(&t);
    loop_thread_done(&t);
}

RUN_TESTS(cmocka_unit_test(items_leave_a_queue_in_order),
          cmocka_unit_test(an_outbox_is_readable_while_it_has_items),
          cmocka_unit_test(waiting_for_an_outbox_ends_at_its_time),
          cmocka_unit_test(a_thread_answers_every_request_and_ends),
          cmocka_unit_test(a_thread_that_was_not_started_can_be_ended),
          cmocka_unit_test(a_wait_ends_at_its_time))
