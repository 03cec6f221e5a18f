/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the embedder's thread: queues, batches, results.
 */
#include "embed/embedder.h"

#include <errno.h>
#include <string.h>

#include "backend/reformat.h"
#include "core/clock.h"
#include "core/err.h"

/* Requests of up to this many tokens, which is about one batch, run before larger requests. */
#define SMALL_TOKENS 512u

static struct job *job_of(struct fifo_link *link)
{
    return link ? CONTAINER_OF(link, struct job, link) : NULL;
}

static struct job *queue_first(const struct fifo *q)
{
    return job_of(q->head);
}

static struct job *queue_next(const struct job *job)
{
    return job_of(job->link.next);
}

static void deliver_job(struct embedder *e, struct job *job)
{
    outbox_put(&e->results, &job->link);
}

/* Finds the first job of @q with a text that has not begun. Returns true if this text fits into the
 * batch. Canceled jobs begin no further texts. */
static bool next_text(const struct fifo *q, const struct lane *lane, struct job **ret_job)
{
    for (struct job *job = queue_first(q); job; job = queue_next(job)) {
        if (job->error < 0 || job->n_begun == job->n_texts)
            continue;
        *ret_job = job;
        return lane_has_room(lane, job->i_task, job->texts[job->n_begun].n);
    }
    return false;
}

static void fill_lane(struct embedder *e, unsigned i)
{
    struct lane *lane = &e->lanes[i];
    struct job *job;

    while (next_text(&e->queues[i], lane, &job)) {
        lane_add(lane, job, job->n_begun);
        e->stats.n_waiting_tokens -= job->texts[job->n_begun++].n;
    }
}

/* Counts the texts of a batch as ended, and delivers the results of jobs that are then complete. */
static void end_batch(struct embedder *e, unsigned i, int error)
{
    struct lane *lane = &e->lanes[i];

    e->stats.n_batches++;
    e->stats.n_texts += lane->batch.n_seqs;
    e->stats.n_tokens += lane->batch.n_rows;
    for (uint32_t j = 0; j < lane->batch.n_seqs; j++) {
        struct job *job = lane->texts[j].job;

        if (error < 0 && job->error == 0)
            job->error = error;
        job->n_ended++;
    }
    lane_clear(lane);
    for (struct job *job = queue_first(&e->queues[i]), *next; job; job = next) {
        next = queue_next(job);
        if (job->n_ended < job->n_begun || (job->error == 0 && job->n_begun < job->n_texts))
            continue;
        for (size_t t = job->n_begun; t < job->n_texts; t++)
            e->stats.n_waiting_tokens -= job->texts[t].n;
        fifo_remove(&e->queues[i], &job->link);
        deliver_job(e, job);
    }
}

/* Ends all jobs because the model's files changed. The lock must be held. */
static void end_stale(struct embedder *e)
{
    for (unsigned i = 0; i < QUEUE_N; i++) {
        for (struct job *job = queue_first(&e->queues[i]); job; job = queue_next(job))
            if (job->error == 0)
                job->error = -ESTALE;
        if (e->queues[i].head)
            end_batch(e, i, -ESTALE);
    }
}

/* Computes a batch or a part of one. The lock is held at the call and at the return. Returns true
 * if there was work. */
static bool work_lane(struct embedder *e, unsigned i)
{
    struct lane *lane = &e->lanes[i];
    int error = 0;
    bool whole;

    if (lane_is_empty(lane))
        fill_lane(e, i);
    if (lane_is_empty(lane))
        return false;
    if (i == QUEUE_SMALL && !lane_is_empty(&e->lanes[QUEUE_LARGE]))
        e->stats.n_interrupted++;
    loop_thread_unlock(&e->thread);
    whole = lane_run(lane, i == QUEUE_LARGE, &error);
    /* If the files were written to while they were read, the rows may be wrong. */
    if (whole && error == 0)
        error = file_set_check(&e->params.files, NULL);
    if (whole && error == 0)
        lane_deliver(lane);
    loop_thread_lock(&e->thread);
    if (whole)
        end_batch(e, i, error);
    return true;
}

static void run_thread(void *arg)
{
    struct embedder *e = arg;

    loop_thread_lock(&e->thread);
    while (!e->thread.stop) {
        const uint64_t begin = clock_nsec();
        bool any;

        if (file_set_is_lost(&e->params.files))
            end_stale(e);
        any = work_lane(e, QUEUE_SMALL);
        any |= work_lane(e, QUEUE_LARGE);
        if (any) {
            e->stats.busy_seconds += (double)(clock_nsec() - begin) * 1e-9;
            continue;
        }
        for (unsigned i = 0; i < QUEUE_N; i++)
            lane_rest(&e->lanes[i]);
        loop_thread_wait(&e->thread);
    }
    loop_thread_unlock(&e->thread);
}

/* Compiles a plan of @graph for each lane (batch-lane.h). The lanes do not need @graph after
 * that. */
static int make_plans(struct embedder *e, struct backend *backend, const struct graph *graph,
                      struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *copy = NULL;
    int r = 0;

    if (!e->params.exact) {
        r = reformat_graph(backend, graph, &e->weights, &copy, reterr);
        graph = copy;
    }
    for (unsigned i = 0; r == 0 && i < QUEUE_N; i++)
        r = lane_add_plan(&e->lanes[i], graph, reterr);
    return r;
}

static int make_lanes(struct embedder *e, struct backend *backend, struct inf_err *reterr)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < QUEUE_N; i++)
        r = lane_init(&e->lanes[i], backend, &e->params.lane, reterr);
    for (uint32_t i = 0; r == 0 && i < e->params.n_graphs; i++)
        r = make_plans(e, backend, e->params.graphs[i], reterr);
    return r;
}

int embedder_new(struct backend **backend, const struct embedder_params *params,
                 struct embedder **ret_embedder, struct inf_err *reterr)
{
    _cleanup_(embedder_freep) struct embedder *e = NULL;
    int r;

    e = NEW(struct embedder, 1);
    if (!e)
        return err_set(reterr, ENOMEM, "out of memory");
    e->params = *params;
    loop_thread_init(&e->thread);
    for (unsigned i = 0; i < QUEUE_N; i++)
        fifo_init(&e->queues[i]);
    r = outbox_init(&e->results);
    if (r < 0)
        return err_set(reterr, -r, "eventfd: %s", strerror(-r));
    r = make_lanes(e, *backend, reterr);
    if (r < 0)
        return r;
    r = loop_thread_start(&e->thread, "infer-embed", run_thread, e);
    if (r < 0)
        return err_set(reterr, -r, "the embedder's thread could not be started: %s", strerror(-r));
    e->backend = STEAL(*backend);
    *ret_embedder = STEAL(e);
    return 0;
}

struct embedder *embedder_free(struct embedder *e)
{
    struct inf_embed_result *result;

    if (!e)
        return NULL;
    loop_thread_stop(&e->thread);
    for (unsigned i = 0; i < QUEUE_N; i++) {
        lane_done(&e->lanes[i]);
        for (struct job *job = queue_first(&e->queues[i]), *next; job; job = next) {
            next = queue_next(job);
            job_free(job);
        }
    }
    while ((result = embedder_next(e)))
        free(result);
    backend_free(e->backend);
    reformat_done(&e->weights);
    outbox_done(&e->results);
    loop_thread_done(&e->thread);
    free(e);
    return NULL;
}

int embedder_submit(struct embedder *e, const struct inf_embed_request *request, uint64_t *ret_id,
                    struct inf_err *reterr)
{
    _cleanup_(job_freep) struct job *job = NULL;
    bool full;
    int r;

    r = job_new(request, &e->params.shape, &job, reterr);
    if (r < 0)
        return r;
    loop_thread_lock(&e->thread);
    /* If no other request waits, a request of any size is accepted, because otherwise a request
     * above the limit could never run. */
    full = e->stats.n_waiting_tokens > 0 &&
           e->stats.n_waiting_tokens + job->n_tokens > e->params.max_queue_tokens;
    if (full) {
        e->stats.n_rejected++;
    } else {
        const bool large = request->bulk || job->n_tokens > SMALL_TOKENS;

        e->stats.n_requests++;
        e->stats.n_waiting_tokens += job->n_tokens;
        *ret_id = job->id = ++e->last_id;
        fifo_push(&e->queues[large ? QUEUE_LARGE : QUEUE_SMALL], &STEAL(job)->link);
        loop_thread_wake(&e->thread);
    }
    loop_thread_unlock(&e->thread);
    return full ? INF_EMBED_FULL : 0;
}

void embedder_cancel(struct embedder *e, uint64_t id)
{
    loop_thread_lock(&e->thread);
    for (unsigned i = 0; i < QUEUE_N; i++) {
        for (struct job *job = queue_first(&e->queues[i]); job; job = queue_next(job)) {
            if (job->id != id || job->error < 0)
                continue;
            job->error = -ECANCELED;
            if (job->n_ended < job->n_begun)
                break; /* the job leaves the queue when its batch ends */
            for (size_t t = job->n_begun; t < job->n_texts; t++)
                e->stats.n_waiting_tokens -= job->texts[t].n;
            fifo_remove(&e->queues[i], &job->link);
            deliver_job(e, job);
            break;
        }
    }
    loop_thread_unlock(&e->thread);
}

struct inf_embed_result *embedder_next(struct embedder *e)
{
    struct inf_embed_result *result;
    struct job *job;

    loop_thread_lock(&e->thread);
    job = job_of(outbox_take(&e->results));
    loop_thread_unlock(&e->thread);
    result = job ? job_finish(job) : NULL;
    job_free(job);
    return result;
}

void embedder_stats(struct embedder *e, struct inf_embedder_stats *ret_stats)
{
    loop_thread_lock(&e->thread);
    *ret_stats = e->stats;
    loop_thread_unlock(&e->thread);
}
