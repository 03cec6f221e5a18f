/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one pull and keeps its progress (see progress.h). */
#include "store/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/err.h"

enum {
    PROGRESS_STEP_MSEC = 100,
    PROGRESS_PATIENCE_STEPS = 300, /* steps until an earlier pull of the model must have ended */
    PROGRESS_DIGITS = 12,          /* digits of a digest that clients see, as with Ollama */
};

struct progress {
    const char *socket;
    char *text; /* of the source */
    struct pull_job job;
    struct pull_watch watch;
    pthread_mutex_t lock; /* guards the members below */
    struct progress_now now;
    struct progress_file *files; /* [now.n_files] */
    struct fetcher *fetcher;     /* the process that progress_stop() may end */
    bool stopped;
};

/* --- the watch of the job, on the thread --- */

static void file_describe(const struct pull_file *from, struct progress_file *ret)
{
    if (from->sha256) {
        snprintf(ret->what, sizeof(ret->what), "pulling %.*s", PROGRESS_DIGITS, from->sha256);
        snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", from->sha256);
    } else {
        snprintf(ret->what, sizeof(ret->what), "pulling %.50s", from->name);
        if (from->sha1)
            snprintf(ret->digest, sizeof(ret->digest), "sha1:%s", from->sha1);
    }
    ret->size = from->size;
}

static void on_planned(void *data, const struct pull_plan *plan)
{
    struct progress *p = data;
    struct progress_file *files = NEW(struct progress_file, plan->n);

    /* If memory is short, the pull continues, but clients do not see its files. */
    for (size_t i = 0; files && i < plan->n; i++)
        file_describe(&plan->files[i], &files[i]);
    pthread_mutex_lock(&p->lock);
    p->files = files;
    p->now.n_files = files ? plan->n : 0;
    p->now.to_verify = pull_plan_bytes(plan);
    p->now.phase = PROGRESS_FETCHING;
    pthread_mutex_unlock(&p->lock);
}

static void on_fetched(void *data, size_t i, uint64_t bytes, uint64_t size)
{
    struct progress *p = data;

    (void)size;
    pthread_mutex_lock(&p->lock);
    p->now.at = i;
    p->now.bytes = bytes;
    pthread_mutex_unlock(&p->lock);
}

static void on_complete(void *data, size_t i, uint64_t bytes)
{
    struct progress *p = data;

    (void)bytes;
    pthread_mutex_lock(&p->lock);
    p->now.at = i + 1;
    p->now.bytes = 0;
    pthread_mutex_unlock(&p->lock);
}

static void on_verified(void *data, uint64_t bytes)
{
    struct progress *p = data;

    pthread_mutex_lock(&p->lock);
    p->now.verified += bytes;
    pthread_mutex_unlock(&p->lock);
}

/* --- the pull, on the thread --- */

static bool is_stopped(struct progress *p)
{
    bool stopped;

    pthread_mutex_lock(&p->lock);
    stopped = p->stopped;
    pthread_mutex_unlock(&p->lock);
    return stopped;
}

/* Sets the process that progress_stop() may end; NULL: none. */
static void expose_fetcher(struct progress *p, struct fetcher *fetcher)
{
    pthread_mutex_lock(&p->lock);
    p->fetcher = fetcher;
    if (fetcher && p->stopped)
        fetcher_hang_up(fetcher);
    pthread_mutex_unlock(&p->lock);
}

static void set_phase(struct progress *p, enum progress_phase phase)
{
    pthread_mutex_lock(&p->lock);
    p->now.phase = phase;
    pthread_mutex_unlock(&p->lock);
}

/* Opens the job. If an earlier pull of the same model was stopped, waits for the end of its
 * sconce-fetch. */
static int open_job(struct progress *p, struct inf_err *reterr)
{
    const struct timespec step = {.tv_nsec = PROGRESS_STEP_MSEC * 1000000L};
    int r = pull_job_open(&p->job, reterr);

    for (unsigned i = 0; r == -EBUSY && i < PROGRESS_PATIENCE_STEPS && !is_stopped(p); i++) {
        pull_job_close(&p->job);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
        r = pull_job_open(&p->job, reterr);
    }
    return r;
}

static int run_job(struct progress *p, struct inf_err *reterr)
{
    int r = open_job(p, reterr);

    if (r == 0)
        r = pull_job_start(&p->job, p->socket, reterr);
    if (r < 0)
        return r;
    expose_fetcher(p, p->job.fetcher);
    r = pull_job_fetch(&p->job, reterr);
    expose_fetcher(p, NULL);
    if (r < 0)
        return r;
    set_phase(p, PROGRESS_VERIFYING);
    return pull_job_finish(&p->job, reterr);
}

int progress_run(struct progress *p, struct inf_err *reterr)
{
    int r = 0;

    set_phase(p, PROGRESS_MANIFEST);
    if (!is_stopped(p))
        r = run_job(p, reterr);
    if ((r < 0 || p->now.phase == PROGRESS_MANIFEST) && is_stopped(p))
        r = err_set(reterr, ECANCELED, "the pull was stopped; pull again to continue");
    pull_job_close(&p->job);
    return r;
}

/* --- for all threads --- */

int progress_new(const struct config *config, const struct pull_secrets *secrets, const char *store,
                 const char *socket, const struct pull_source *source,
                 struct progress **ret_progress)
{
    struct progress *p = NEW(struct progress, 1);

    if (!p)
        return -ENOMEM;
    p->text = strdup(source->text);
    if (!p->text) {
        free(p);
        return -ENOMEM;
    }
    pthread_mutex_init(&p->lock, NULL);
    p->socket = socket;
    p->watch = (struct pull_watch){on_planned, on_fetched, on_complete, on_verified, p};
    p->job = (struct pull_job){.config = config,
                               .secrets = secrets,
                               .store = store,
                               .watch = &p->watch,
                               .source = *source,
                               .lock = -1};
    p->job.source.text = p->text;
    *ret_progress = p;
    return 0;
}

struct progress *progress_free(struct progress *p)
{
    if (!p)
        return NULL;
    pull_job_done(&p->job);
    pthread_mutex_destroy(&p->lock);
    free(p->files);
    free(p->text);
    free(p);
    return NULL;
}

void progress_stop(struct progress *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopped = true;
    if (p->fetcher)
        fetcher_hang_up(p->fetcher);
    pthread_mutex_unlock(&p->lock);
}

void progress_read(struct progress *p, struct progress_now *ret)
{
    pthread_mutex_lock(&p->lock);
    *ret = p->now;
    pthread_mutex_unlock(&p->lock);
}

const struct progress_file *progress_file(struct progress *p, size_t i)
{
    return &p->files[i];
}
