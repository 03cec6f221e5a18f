/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the event loop of a service, with descriptors, timers and deferred work.
 *
 * One thread runs a loop and owns all objects of the loop. Timers use the monotonic clock. Timers,
 * tasks and waits are members of their owners' structures. An owner must remove them, and free its
 * watches, before it is freed.
 */

#include "core/macros.h"

struct loop;
struct loop_watch;
struct http_base;

struct loop_timer {
    void (*fire)(struct loop_timer *timer);
    void *data;
    uint64_t at_usec; /* 0: not set */
    struct loop_timer *prev, *next;
};

/* Struct loop_task runs once, soon, but not inside the present callback. */
struct loop_task {
    void (*run)(struct loop_task *task);
    void *data;
    bool queued;
    struct loop_task *next;
};

/* Struct loop_queue holds waits of the same length, which end in the order in which they began.
 * Each operation takes constant time, however many waits there are. */
struct loop_queue {
    struct loop *loop;
    uint64_t usec; /* length of each wait */
    struct loop_wait *first, *last;
    struct loop_timer timer;
};

/* Struct loop_wait is in at most one queue at a time. */
struct loop_wait {
    void (*fire)(struct loop_wait *wait);
    void *data;
    struct loop_queue *queue; /* NULL: not waiting */
    uint64_t at_usec;
    struct loop_wait *prev, *next;
};

int loop_new(struct loop **ret_loop);
struct loop *loop_free(struct loop *loop);
DEFINE_CLEANUP(struct loop *, loop_free);

/* Runs until loop_stop(); may be called again. -errno if the poller fails. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Calls @readable whenever @fd is readable, until the watch is freed. The caller still owns @fd. */
int loop_watch_new(struct loop *loop, int fd, void (*readable)(void *data), void *data,
                   struct loop_watch **ret_watch);
struct loop_watch *loop_watch_free(struct loop_watch *watch);

/* Sets or moves a timer; it fires once. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t in_usec);
void loop_timer_stop(struct loop *loop, struct loop_timer *timer);
static inline bool loop_timer_is_set(const struct loop_timer *timer)
{
    return timer->at_usec != 0;
}

void loop_queue_init(struct loop_queue *queue, struct loop *loop, uint64_t usec);
/* Starts a wait at the end of @queue. If the wait is already in a queue, it is removed from that
 * queue first. */
void loop_wait_start(struct loop_queue *queue, struct loop_wait *wait);
void loop_wait_stop(struct loop_wait *wait);

void loop_task_queue(struct loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop *loop, struct loop_task *task);

/* Returns the poller; only for the files of http/ that include h2o.h. */
struct http_base *loop_base(struct loop *loop);
