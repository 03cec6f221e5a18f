/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the embedder, its thread and its two queues.
 *
 * Requests of few tokens that are not marked as bulk wait in the first queue, and all others in the
 * second queue; both queues are in order of arrival. Each queue has a lane. The thread computes
 * whole batches of the first queue and, between them, parts of the second queue's batch. So a small
 * request waits for at most one part, and a large request always makes progress.
 */

#include "backend/reformat.h"
#include "core/file.h"
#include "core/loop-thread.h"
#include "core/outbox.h"
#include "embed/batch-lane.h"

enum {
    QUEUE_SMALL,
    QUEUE_LARGE,
    QUEUE_N,
};

struct embedder_params {
    struct lane_params lane;
    const struct graph *const *graphs; /* [n_graphs], one per task; only embedder_new() uses them */
    uint32_t n_graphs;                 /* up to LANE_MAX_PLANS */
    bool exact;
    struct job_shape shape;
    struct file_set files; /* files of the weights; if one of them changes, all jobs end */
    uint64_t max_queue_tokens;
};

struct embedder {
    struct reformat weights; /* copies of weights in other formats */
    struct embedder_params params;
    struct backend *backend;
    struct lane lanes[QUEUE_N];  /* used only by the thread */
    struct loop_thread thread;   /* its lock protects all members below */
    struct fifo queues[QUEUE_N]; /* jobs with unfinished texts */
    struct outbox results;       /* ended jobs */
    uint64_t last_id;
    struct inf_embedder_stats stats;
};

/* Takes ownership of *@backend on success. -EOPNOTSUPP with the reason, -ENOMEM, -EAGAIN. */
int embedder_new(struct backend **backend, const struct embedder_params *params,
                 struct embedder **ret_embedder, struct inf_err *reterr);
struct embedder *embedder_free(struct embedder *e);
DEFINE_CLEANUP(struct embedder *, embedder_free);

/* Implements inf_embedder_submit(). */
int embedder_submit(struct embedder *e, const struct inf_embed_request *request, uint64_t *ret_id,
                    struct inf_err *reterr);
void embedder_cancel(struct embedder *e, uint64_t id);
/* Returns the next result; NULL: there is none. */
struct inf_embed_result *embedder_next(struct embedder *e);
void embedder_stats(struct embedder *e, struct inf_embedder_stats *ret_stats);
