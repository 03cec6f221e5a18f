/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares lanes. A lane holds one batch of texts while the model computes it.
 *
 * A lane has its own plans (a plan is a graph that was compiled for a device), one per task, and
 * its own KV store of one layer. So the batch of another lane can be computed while the batch of
 * this lane is paused between two matrix products.
 */

#include "backend/backend.h"
#include "embed/job.h"

#define LANE_MAX_PLANS 8u

struct lane_params {
    uint32_t width;        /* width of the graphs' output */
    uint32_t batch_tokens; /* limit of tokens of several texts together */
    uint32_t max_tokens;   /* limit of tokens of one text */
    uint32_t n_kv_heads, head_dim;
    enum job_pick pick;
    int32_t padding; /* tokens with this id use row 0 of the position table, and the other tokens of
                        a text use rows 1, 2, 3…; -1: all tokens of a text use rows 0, 1, 2… */
};

/* A text of the batch. */
struct lane_text {
    struct job *job;
    size_t i_text;
};

struct lane {
    struct backend *backend; /* borrowed */
    struct plan *plans[LANE_MAX_PLANS];
    uint32_t n_plans;
    uint32_t i_task; /* task of all texts of the batch */
    struct kv_store *store;
    struct lane_params params;
    struct batch batch;
    struct batch_seq *seqs;  /* [max_seqs] */
    struct lane_text *texts; /* [max_seqs] */
    uint32_t *blocks;        /* [n_blocks], 0, 1, 2… */
    int32_t *tokens;         /* [max_rows] */
    uint8_t *types;          /* [max_rows] */
    uint32_t *positions;     /* [max_rows]; NULL: positions count from 0 in each text */
    uint32_t *logit_rows;    /* [max_logits] */
    float *out;              /* [max_logits, width]; pages are allocated as rows are written */
    uint32_t max_rows, max_seqs, max_logits, n_blocks;
    uint64_t out_size;
    uint32_t i_stage; /* stage at which run_part() continues */
    bool large;       /* the batch was a single text longer than batch_tokens */
};

/* Initializes @lane, which must be zeroed. Returns 0, -EOPNOTSUPP with the reason, or -ENOMEM. */
int lane_init(struct lane *lane, struct backend *backend, const struct lane_params *params,
              struct inf_err *reterr);
void lane_done(struct lane *lane);
/* Adds the plan of the next task. -EOPNOTSUPP with the reason, -ENOMEM. */
int lane_add_plan(struct lane *lane, const struct graph *graph, struct inf_err *reterr);

/* Returns whether another text of @n tokens for task @i_task fits into the batch. */
bool lane_has_room(const struct lane *lane, uint32_t i_task, size_t n);
/* Adds text @i_text of @job to the batch. */
void lane_add(struct lane *lane, struct job *job, size_t i_text);
static inline bool lane_is_empty(const struct lane *lane)
{
    return lane->batch.n_seqs == 0;
}
/* Computes the batch, or only its next part if @part is true. Returns true when the batch is
 * complete: then lane_deliver() can write the vectors, or *ret_error has the error. */
bool lane_run(struct lane *lane, bool part, int *ret_error);
/* Writes the vectors to the jobs of the batch. */
void lane_deliver(const struct lane *lane);
void lane_clear(struct lane *lane);
/* Gives back to the system the memory that a large batch used. The embedder calls this function
 * when the lane has no work. */
void lane_rest(struct lane *lane);
