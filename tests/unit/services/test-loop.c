/* SPDX-License-Identifier: Apache-2.0 */
#include "common/service/loop.h"
#include "core/clock.h"
#include "lib/test.h"

#define USEC 20000

struct fired {
    struct loop *loop;
    char order[16];
    size_t n, end; /* the loop stops after @end timeouts */
};

static struct fired fired;

static void on_wait(struct loop_wait *wait)
{
    fired.order[fired.n++] = *(const char *)wait->data;
    if (fired.n == fired.end)
        loop_stop(fired.loop);
}

static struct loop_wait wait_of(const char *name)
{
    return (struct loop_wait){.fire = on_wait, .data = (void *)name};
}

static void run(struct loop *loop, size_t end)
{
    fired = (struct fired){.loop = loop, .end = end};
    ASSERT_OK(loop_run(loop));
}

TEST(waits_end_in_the_order_of_their_beginning)
{
    _cleanup_(loop_freep) struct loop *loop = NULL;
    struct loop_wait a = wait_of("a"), b = wait_of("b"), c = wait_of("c"), d = wait_of("d");
    struct loop_queue queue, slow;
    const uint64_t start = clock_usec();

    ASSERT_OK(loop_new(&loop));
    loop_queue_init(&queue, loop, USEC);
    loop_queue_init(&slow, loop, 2 * USEC);
    loop_wait_start(&slow, &d);
    loop_wait_start(&queue, &a);
    loop_wait_start(&queue, &b);
    loop_wait_start(&queue, &c);
    /* A restarted timeout moves to the end; a stopped timeout never fires. */
    loop_wait_start(&queue, &a);
    loop_wait_stop(&b);
    loop_wait_stop(&b);
    run(loop, 3);
    assert_string_equal(fired.order, "cad");
    assert_true(clock_usec() - start >= 2 * USEC);
    assert_null(a.queue);
}

TEST(a_wait_may_change_its_queue)
{
    _cleanup_(loop_freep) struct loop *loop = NULL;
    struct loop_wait a = wait_of("a"), b = wait_of("b");
    struct loop_queue queue, slow;

    ASSERT_OK(loop_new(&loop));
    loop_queue_init(&queue, loop, USEC);
    loop_queue_init(&slow, loop, 3 * USEC);
    loop_wait_start(&queue, &a);
    loop_wait_start(&slow, &b);
    loop_wait_start(&slow, &a);
    loop_wait_start(&queue, &b);
    run(loop, 2);
    assert_string_equal(fired.order, "ba");
}

/* The first timeout of a queue sets the timer of the queue. After this timeout is removed, the
 * others must still fire in time. */
TEST(later_waits_have_their_whole_time)
{
    _cleanup_(loop_freep) struct loop *loop = NULL;
    struct loop_wait a = wait_of("a"), b = wait_of("b");
    struct loop_queue queue;
    uint64_t start;

    ASSERT_OK(loop_new(&loop));
    loop_queue_init(&queue, loop, USEC);
    loop_wait_start(&queue, &a);
    usleep(USEC / 2);
    start = clock_usec();
    loop_wait_start(&queue, &b);
    loop_wait_stop(&a);
    run(loop, 1);
    assert_string_equal(fired.order, "b");
    assert_true(clock_usec() - start >= USEC);
}

RUN_TESTS(cmocka_unit_test(waits_end_in_the_order_of_their_beginning),
          cmocka_unit_test(a_wait_may_change_its_queue),
          cmocka_unit_test(later_waits_have_their_whole_time))
