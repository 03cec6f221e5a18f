/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A lane: one batch of texts on its way through the model
 *
 * A lane has plans, one for each task, and a KV store of one layer to itself, so that the batch of
 * another lane can be computed while its own is between two products.
 */

#include "backend/backend.h"
#include "embed/job.h"

#define LANE_MAX_PLANS 8u

struct lane_params {
    uint32_t width;        /* of the graphs' output */
    uint32_t batch_tokens; /* of several texts together */
    uint32_t max_tokens;   /* of one text */
    uint32_t n_kv_heads, head_dim;
    enum job_pick pick;
    int32_t padding; /* tokens of this id have row 0 of the table of positions, and others the rows
                        behind it, counted without them; -1: all are counted, from row 0 on */
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
    uint32_t i_task; /* of all texts of the batch */
    struct kv_store *store;
    struct lane_params params;
    struct batch batch;
    struct batch_seq *seqs;  /* [max_seqs] */
    struct lane_text *texts; /* [max_seqs] */
    uint32_t *blocks;        /* [n_blocks], 0, 1, 2… */
    int32_t *tokens;         /* [max_rows] */
    uint8_t *types;          /* [max_rows] */
    uint32_t *positions;     /* [max_rows]; NULL: they are as in any text */
    uint32_t *logit_rows;    /* [max_logits] */
    float *out;              /* [max_logits, width]: memory is touched when rows come */
    uint32_t max_rows, max_seqs, max_logits, n_blocks;
    uint64_t out_size;
    uint32_t i_stage; /* where run_part() goes on */
    bool large;       /* the batch was a text beyond batch_tokens */
};

/* -EOPNOTSUPP with the reason, -ENOMEM. @lane is zeroed. */
int lane_init(struct lane *lane, struct backend *backend, const struct lane_params *params,
              struct inf_err *reterr);
void lane_done(struct lane *lane);
/* The next task's. -EOPNOTSUPP with the reason, -ENOMEM. */
int lane_add_plan(struct lane *lane, const struct graph *graph, struct inf_err *reterr);

/* Whether another text of @n tokens, for task @i_task, goes into the batch. */
bool lane_has_room(const struct lane *lane, uint32_t i_task, size_t n);
/* The text @i_text of @job joins the batch. */
void lane_add(struct lane *lane, struct job *job, size_t i_text);
static inline bool lane_is_empty(const struct lane *lane)
{
    return lane->batch.n_seqs == 0;
}
/* Computes the batch, or the next part of it when @part. True when it is whole: the jobs have their
 * vectors, or *ret_error says why not. */
bool lane_run(struct lane *lane, bool part, int *ret_error);
/* Writes the vectors to the jobs of the batch. */
void lane_deliver(const struct lane *lane);
void lane_clear(struct lane *lane);
/* Nothing is to be done for now: gives memory back that a large batch took. */
void lane_rest(struct lane *lane);
