/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, wakes and ends a thread that works on requests. */
#include "core/loop-thread.h"

#include <errno.h>
#include <time.h>

#include "core/signals.h"

void loop_thread_init(struct loop_thread *t)
{
    pthread_condattr_t monotonic;

    *t = (struct loop_thread){0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void *loop_thread_main(void *arg)
{
    struct loop_thread *t = arg;

    /* The thread names itself: naming another thread opens a file of /proc, which policies forbid.
     */
    pthread_setname_np(pthread_self(), t->name);
    t->run(t->arg);
    return NULL;
}

int loop_thread_start(struct loop_thread *t, const char *name, void (*run)(void *arg), void *arg)
{
    sigset_t old;
    int r;

    t->name = name;
    t->run = run;
    t->arg = arg;
    signals_block(&old);
    r = pthread_create(&t->id, NULL, loop_thread_main, t);
    signals_restore(&old);
    t->is_started = r == 0;
    return -r;
}

void loop_thread_stop(struct loop_thread *t)
{
    bool ended;

    if (!t->is_started)
        return;
    pthread_mutex_lock(&t->lock);
    ended = t->stop;
    t->stop = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    if (!ended)
        pthread_join(t->id, NULL);
}

void loop_thread_done(struct loop_thread *t)
{
    loop_thread_stop(t);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}

bool loop_thread_wait_until(struct loop_thread *t, uint64_t usec)
{
    const struct timespec until = {(time_t)(usec / 1000000), (long)(usec % 1000000) * 1000};

    return pthread_cond_timedwait(&t->wake, &t->lock, &until) != ETIMEDOUT;
}
