/* SPDX-License-Identifier: Apache-2.0 */
/* Runs jobs on threads (see jobs.h). A mutex guards the lanes and the list of finished jobs, and an
 * eventfd wakes the loop. */
#include "common/service/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "common/service/loop.h"

struct jobs {
    const char *name;
    pthread_t *threads; /* [n_threads] */
    unsigned n_threads;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job_lane *turns,
        **turns_end; /* lanes with jobs; the lock guards these and the following members */
    struct job_lane usual;
    struct job *ready, **ready_end;
    bool stopping;
    int fd;
    struct loop_watch *watch;
};

/* Appends a lane to the lanes that wait for their turn. */
static void lane_wait(struct jobs *jobs, struct job_lane *lane)
{
    lane->busy = true;
    lane->next = NULL;
    *jobs->turns_end = lane;
    jobs->turns_end = &lane->next;
}

static struct job_lane *lane_take(struct jobs *jobs)
{
    struct job_lane *lane = jobs->turns;

    jobs->turns = lane->next;
    if (!jobs->turns)
        jobs->turns_end = &jobs->turns;
    return lane;
}

static struct job *lane_pop(struct job_lane *lane)
{
    struct job *job = lane->first;

    lane->first = job->next;
    if (!lane->first)
        lane->last = NULL;
    job->next = NULL;
    return job;
}

/* Runs the next job of the first waiting lane. */
static void jobs_run_one(struct jobs *jobs)
{
    struct job_lane *lane = lane_take(jobs);
    struct job *job = lane_pop(lane);
    const uint64_t one = 1;
    bool wake;

    pthread_mutex_unlock(&jobs->lock);
    job->run(job);
    pthread_mutex_lock(&jobs->lock);

    /* The lane must not be used after the job is on the ready list, because the loop may then free
     * the lane. */
    if (lane->first)
        lane_wait(jobs, lane);
    else
        lane->busy = false;
    wake = !jobs->ready; /* otherwise the loop was already woken */
    *jobs->ready_end = job;
    jobs->ready_end = &job->next;
    if (wake && write(jobs->fd, &one, sizeof(one)) < 0)
        assert(errno == EAGAIN);
}

static void *jobs_thread(void *data)
{
    struct jobs *jobs = data;

    pthread_setname_np(pthread_self(), jobs->name);
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        while (!jobs->turns && !jobs->stopping)
            pthread_cond_wait(&jobs->wake, &jobs->lock);
        if (jobs->stopping)
            break;
        jobs_run_one(jobs);
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

static int jobs_start(struct jobs *jobs, struct loop *loop, unsigned n_threads)
{
    int r;

    jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (jobs->fd < 0)
        return -errno;
    jobs->threads = NEW(pthread_t, n_threads);
    r = jobs->threads ? loop_watch_new(loop, jobs->fd, jobs_on_ready, jobs, &jobs->watch) : -ENOMEM;
    while (r == 0 && jobs->n_threads < n_threads) {
        r = -pthread_create(&jobs->threads[jobs->n_threads], NULL, jobs_thread, jobs);
        jobs->n_threads += r == 0;
    }
    return r;
}

int jobs_new(struct loop *loop, const char *name, unsigned n_threads, struct jobs **ret_jobs)
{
    struct jobs *jobs = NEW(struct jobs, 1);
    int r;

    if (!jobs)
        return -ENOMEM;
    jobs->turns_end = &jobs->turns;
    jobs->ready_end = &jobs->ready;
    jobs->name = name;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    r = jobs_start(jobs, loop, n_threads);
    if (r < 0) {
        jobs_free(jobs);
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
    pthread_cond_broadcast(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
    for (unsigned i = 0; i < jobs->n_threads; i++)
        pthread_join(jobs->threads[i], NULL);
    loop_watch_free(jobs->watch);
    if (jobs->fd >= 0)
        close(jobs->fd);
    pthread_cond_destroy(&jobs->wake);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs->threads);
    free(jobs);
    return NULL;
}

void jobs_queue(struct jobs *jobs, struct job_lane *lane, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&jobs->lock);
    if (!lane)
        lane = &jobs->usual;
    if (lane->last)
        lane->last->next = job;
    else
        lane->first = job;
    lane->last = job;
    if (!lane->busy) {
        lane_wait(jobs, lane);
        pthread_cond_signal(&jobs->wake);
    }
    pthread_mutex_unlock(&jobs->lock);
}
