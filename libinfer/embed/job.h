/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares jobs: requests in progress, with their texts and the vectors computed so far. */

#include <infer/embed.h>

#include "core/fifo.h"
#include "core/macros.h"
#include "format/hparams.h"

/* The rows of a text that give vectors. */
enum job_pick {
    JOB_PICK_FIRST,
    JOB_PICK_LAST,
    JOB_PICK_ALL,
};

struct job_text {
    size_t first;    /* index of its first token */
    size_t n;        /* tokens */
    size_t n_seen;   /* how many of the first tokens are visible to attention; 0: all */
    size_t i_vector; /* index of its first vector */
};

struct job {
    struct fifo_link link;
    uint64_t id;
    void *user;
    int32_t *tokens; /* tokens of all texts */
    uint8_t *types;  /* token types of all texts; NULL: not used */
    struct job_text *texts;
    size_t n_texts, n_tokens;
    size_t n_begun, n_ended; /* numbers of texts; texts begin in order */
    uint32_t full_width;     /* width of the model's output */
    uint32_t i_task;
    bool normalize;
    int error;
    struct inf_embed_result *result; /* complete except for the floats of the vectors */
    float *vectors;                  /* memory of the result */
};

/* Properties of the embedder that jobs depend on. */
struct job_shape {
    uint32_t n_vocab, n_types, max_tokens, width;
    uint32_t window; /* attention window of the model's layers; 0: none */
    bool encoder;    /* attention is bidirectional */
    enum job_pick pick;
    bool normalize;                         /* the default for requests that do not set it */
    const char (*tasks)[HPARAMS_TASK_NAME]; /* [n_tasks] names of the model's tasks */
    uint32_t n_tasks;
};

/* Checks @request and copies it. -EINVAL or -E2BIG, with the reason; -ENOMEM. */
int job_new(const struct inf_embed_request *request, const struct job_shape *shape,
            struct job **ret_job, struct inf_err *reterr);
struct job *job_free(struct job *job);
DEFINE_CLEANUP(struct job *, job_free);

/* Stores vector @i of the job: the model's row @row, truncated, and normalized if requested. */
void job_put(struct job *job, size_t i, const float *row);
/* Takes the result from the job, with the job's error. */
struct inf_embed_result *job_finish(struct job *job);
