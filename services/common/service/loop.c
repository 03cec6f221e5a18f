/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the event loop: timers and tasks on top of the poller of http/loop.c.
 *
 * The list of timers is sorted. A service has few timers at a time, and most are inserted at the
 * end. Tasks and timers run outside of the poller's callbacks. They may complete writes, which only
 * the poller can report, so the loop then polls once without waiting.
 */
#include "common/service/loop.h"

#include <errno.h>

#include "common/http/http.h"
#include "core/clock.h"

struct loop {
    struct http_base *base;
    struct loop_timer *first, *last;
    struct loop_task *tasks, **tasks_end;
    struct loop_task *running; /* the tasks of this round that have not run yet */
    bool stopping;
};

int loop_new(struct loop **ret_loop)
{
    struct loop *loop = NEW(struct loop, 1);
    int r;

    if (!loop)
        return -ENOMEM;
    loop->tasks_end = &loop->tasks;
    r = http_base_new(&loop->base);
    if (r < 0) {
        free(loop);
        return r;
    }
    *ret_loop = loop;
    return 0;
}

struct loop *loop_free(struct loop *loop)
{
    if (!loop)
        return NULL;
    http_base_free(loop->base);
    free(loop);
    return NULL;
}

struct http_base *loop_base(struct loop *loop)
{
    return loop->base;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}

static bool loop_run_tasks(struct loop *loop)
{
    struct loop_task *task;
    bool any = false;

    /* Tasks that are queued during this round run in the next one. */
    loop->running = loop->tasks;
    loop->tasks = NULL;
    loop->tasks_end = &loop->tasks;
    while ((task = loop->running)) {
        loop->running = task->next;
        task->next = NULL;
        task->queued = false;
        task->run(task);
        any = true;
    }
    return any;
}

static bool loop_run_timers(struct loop *loop)
{
    const uint64_t now = clock_usec();
    bool any = false;

    while (loop->first && loop->first->at_usec <= now) {
        struct loop_timer *timer = loop->first;

        loop_timer_stop(loop, timer);
        timer->fire(timer);
        any = true;
    }
    return any;
}

static int loop_wait_msec(const struct loop *loop)
{
    uint64_t now;

    if (loop->tasks)
        return 0;
    if (!loop->first)
        return 60 * 1000;
    now = clock_usec();
    if (loop->first->at_usec <= now)
        return 0;
    return (int)MIN((loop->first->at_usec - now + 999) / 1000, (uint64_t)60 * 1000);
}

int loop_run(struct loop *loop)
{
    bool busy = false;

    while (!loop->stopping) {
        const int r = http_base_poll(loop->base, busy ? 0 : loop_wait_msec(loop));

        if (r < 0 && r != -EINTR)
            return r;
        busy = loop_run_tasks(loop);
        busy |= loop_run_timers(loop);
    }
    loop->stopping = false;
    /* The last writes may still wait for their callbacks. */
    http_base_poll(loop->base, 0);
    return 0;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t in_usec)
{
    struct loop_timer *before;

    loop_timer_stop(loop, timer);
    timer->at_usec = clock_usec() + in_usec;
    for (before = loop->last; before && before->at_usec > timer->at_usec;)
        before = before->prev;
    timer->prev = before;
    timer->next = before ? before->next : loop->first;
    if (timer->next)
        timer->next->prev = timer;
    else
        loop->last = timer;
    if (before)
        before->next = timer;
    else
        loop->first = timer;
}

void loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
    if (!timer->at_usec)
        return;
    if (timer->prev)
        timer->prev->next = timer->next;
    else
        loop->first = timer->next;
    if (timer->next)
        timer->next->prev = timer->prev;
    else
        loop->last = timer->prev;
    timer->prev = timer->next = NULL;
    timer->at_usec = 0;
}

static void queue_on_timer(struct loop_timer *timer)
{
    struct loop_queue *queue = timer->data;
    const uint64_t now = clock_usec();

    while (queue->first && queue->first->at_usec <= now) {
        struct loop_wait *wait = queue->first;

        loop_wait_stop(wait);
        wait->fire(wait);
    }
    if (queue->first)
        loop_timer_set(queue->loop, timer, queue->first->at_usec - now);
}

void loop_queue_init(struct loop_queue *queue, struct loop *loop, uint64_t usec)
{
    *queue = (struct loop_queue){.loop = loop, .usec = usec};
    queue->timer = (struct loop_timer){.fire = queue_on_timer, .data = queue};
}

void loop_wait_start(struct loop_queue *queue, struct loop_wait *wait)
{
    loop_wait_stop(wait);
    wait->queue = queue;
    wait->at_usec = clock_usec() + queue->usec;
    wait->prev = queue->last;
    wait->next = NULL;
    if (queue->last)
        queue->last->next = wait;
    else
        queue->first = wait;
    queue->last = wait;
    /* The timer may be set for an earlier wait that was stopped. It then fires without effect and
     * is set again. */
    if (!loop_timer_is_set(&queue->timer))
        loop_timer_set(queue->loop, &queue->timer, queue->usec);
}

void loop_wait_stop(struct loop_wait *wait)
{
    struct loop_queue *queue = wait->queue;

    if (!queue)
        return;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        queue->first = wait->next;
    if (wait->next)
        wait->next->prev = wait->prev;
    else
        queue->last = wait->prev;
    if (!queue->first)
        loop_timer_stop(queue->loop, &queue->timer);
    wait->prev = wait->next = NULL;
    wait->queue = NULL;
}

void loop_task_queue(struct loop *loop, struct loop_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *loop->tasks_end = task;
    loop->tasks_end = &task->next;
}

void loop_task_cancel(struct loop *loop, struct loop_task *task)
{
    struct loop_task **lists[] = {&loop->running, &loop->tasks};

    if (!task->queued)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (struct loop_task **at = lists[i]; *at; at = &(*at)->next)
            if (*at == task) {
                *at = task->next;
                if (loop->tasks_end == &task->next)
                    loop->tasks_end = at;
                task->next = NULL;
                task->queued = false;
                return;
            }
}
