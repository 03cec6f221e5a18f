/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread that works on requests, with a lock and a wake-up
 *
 * Callers change the data that the lock protects, and wake the thread. The thread waits with
 * loop_thread_wait() and returns when @stop is set. All signals are blocked in the thread, except
 * those for faults of its own.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct loop_thread {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t id;
    const char *name; /* static text of up to 15 bytes */
    void (*run)(void *arg);
    void *arg;
    bool is_started;
    bool stop; /* under the lock: the thread must return */
};

/* Initializes the lock and the wake-up; no thread is started. */
void loop_thread_init(struct loop_thread *t);
/* Starts a thread that calls @run(@arg). -EAGAIN: the system has no room for a thread. */
int loop_thread_start(struct loop_thread *t, const char *name, void (*run)(void *arg), void *arg);
/* Sets stop and waits for the thread. Does nothing if no thread was started or it has ended. The
 * lock must not be held. */
void loop_thread_stop(struct loop_thread *t);
/* Ends the thread and destroys the lock. */
void loop_thread_done(struct loop_thread *t);

static inline void loop_thread_lock(struct loop_thread *t)
{
    pthread_mutex_lock(&t->lock);
}

static inline void loop_thread_unlock(struct loop_thread *t)
{
    pthread_mutex_unlock(&t->lock);
}

/* Ends a wait of the thread. The lock must be held. */
static inline void loop_thread_wake(struct loop_thread *t)
{
    pthread_cond_signal(&t->wake);
}

/* Waits until a wake-up. The lock must be held; it is released meanwhile. A wait may also end
 * without a wake-up. */
static inline void loop_thread_wait(struct loop_thread *t)
{
    pthread_cond_wait(&t->wake, &t->lock);
}

/* Waits like loop_thread_wait(), but at most until the time @usec of clock_usec(). Returns false if
 * that time has come. */
bool loop_thread_wait_until(struct loop_thread *t, uint64_t usec);
