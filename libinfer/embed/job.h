/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A request on its way: its texts, and the vectors that are there. */

#include <infer/embed.h>

#include "core/macros.h"
#include "format/hparams.h"

/* Which rows of a text are asked for. */
enum job_pick {
    JOB_PICK_FIRST,
    JOB_PICK_LAST,
    JOB_PICK_ALL,
};

struct job_text {
    size_t first;    /* of its tokens */
    size_t n;        /* tokens */
    size_t n_seen;   /* of them; 0: all */
    size_t i_vector; /* where its vectors go */
};

struct job {
    struct job *next; /* in the queue */
    uint64_t id;
    void *user;
    int32_t *tokens; /* of all texts */
    uint8_t *types;  /* or NULL */
    struct job_text *texts;
    size_t n_texts, n_tokens;
    size_t n_begun, n_ended; /* texts; they begin in order */
    uint32_t full_width;     /* of what the model makes */
    uint32_t i_task;
    bool normalize;
    int error;
    struct inf_embed_result *result; /* complete but for the vectors' floats */
    float *vectors;                  /* the result's */
};

/* What a job needs to know of its embedder. */
struct job_shape {
    uint32_t n_vocab, n_types, max_tokens, width;
    uint32_t window; /* of its layers; 0: none */
    bool encoder;    /* tokens see both sides */
    enum job_pick pick;
    bool normalize;                         /* unless the request says otherwise */
    const char (*tasks)[HPARAMS_TASK_NAME]; /* [n_tasks] of the model */
    uint32_t n_tasks;
};

/* Checks @request and copies it. -EINVAL, -E2BIG with the reason; -ENOMEM. */
int job_new(const struct inf_embed_request *request, const struct job_shape *shape,
            struct job **ret_job, struct inf_err *reterr);
struct job *job_free(struct job *job);
DEFINE_CLEANUP(struct job *, job_free);

/* Vector @i of the job from the model's @row: cut, and normalised when that is wanted. */
void job_put(struct job *job, size_t i, const float *row);
/* The result leaves the job, with the error that it has. */
struct inf_embed_result *job_finish(struct job *job);
