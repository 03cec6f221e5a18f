/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex around two lists, and an eventfd towards the loop. */
#include "common/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "common/loop.h"

struct jobs {
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job *waiting, **waiting_end; /* under the lock, as what follows */
    struct job *ready, **ready_end;
    bool stopping;
    int fd;
    struct loop_watch *watch;
};

static void *jobs_thread(void *data)
{
    struct jobs *jobs = data;

    pthread_setname_np(pthread_self(), jobs->name);
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct job *job;
        uint64_t one = 1;

        while (!jobs->waiting && !jobs->stopping)
            pthread_cond_wait(&jobs->wake, &jobs->lock);
        if (jobs->stopping)
            break;
        job = jobs->waiting;
        jobs->waiting = job->next;
        if (!jobs->waiting)
            jobs->waiting_end = &jobs->waiting;
        pthread_mutex_unlock(&jobs->lock);

        job->next = NULL;
        job->run(job);

        pthread_mutex_lock(&jobs->lock);
        *jobs->ready_end = job;
        jobs->ready_end = &job->next;
        if (write(jobs->fd, &one, sizeof(one)) < 0)
            assert(errno == EAGAIN);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static void jobs_on_ready(void *data)
{
    struct jobs *jobs = data;
    struct job *job;
    uint64_t n;

    if (read(jobs->fd, &n, sizeof(n)) < 0)
        return;
    pthread_mutex_lock(&jobs->lock);
    job = jobs->ready;
    jobs->ready = NULL;
    jobs->ready_end = &jobs->ready;
    pthread_mutex_unlock(&jobs->lock);
    while (job) {
        struct job *next = job->next;

        job->next = NULL;
        job->done(job);
        job = next;
    }
}

int jobs_new(struct loop *loop, const char *name, struct jobs **ret_jobs)
{
    struct jobs *jobs = NEW(struct jobs, 1);
    int r;

    if (!jobs)
        return -ENOMEM;
    jobs->waiting_end = &jobs->waiting;
    jobs->ready_end = &jobs->ready;
    jobs->name = name;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = jobs->fd < 0 ? -errno : loop_watch_new(loop, jobs->fd, jobs_on_ready, jobs, &jobs->watch);
    if (r == 0)
        r = -pthread_create(&jobs->thread, NULL, jobs_thread, jobs);
    if (r < 0) {
        loop_watch_free(jobs->watch);
        if (jobs->fd >= 0)
            close(jobs->fd);
        free(jobs);
        return r;
    }
    *ret_jobs = jobs;
    return 0;
}

struct jobs *jobs_free(struct jobs *jobs)
{
    if (!jobs)
        return NULL;
    pthread_mutex_lock(&jobs->lock);
    jobs->stopping = true;
    pthread_cond_signal(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->thread, NULL);
    loop_watch_free(jobs->watch);
    close(jobs->fd);
    pthread_cond_destroy(&jobs->wake);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
    return NULL;
}

void jobs_queue(struct jobs *jobs, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&jobs->lock);
    *jobs->waiting_end = job;
    jobs->waiting_end = &job->next;
    pthread_cond_signal(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
}
