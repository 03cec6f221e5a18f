/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A runner is a model that is ready to run on a device: backend, plan (the graph compiled for the
 * device), KV pool and the buffer of logits.
 *
 * The engine, inf_bench(), inf_perplexity() and inf_logits() use runners. One thread at a time may
 * use a runner.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/pool.h"

struct runner_params {
    bool shares_backend;       /* the backend belongs to another runner, which outlives this one */
    const struct graph *graph; /* NULL only with the null device */
    struct kv_layout layout;
    struct kv_pool *pool; /* the pool of another runner, which outlives this one; then `layout` is
                             not used. NULL: the runner gets a pool of its own */
    struct plan_limits limits;
    uint32_t n_vocab;  /* width of the logits */
    uint32_t n_hidden; /* width of the hidden states that the graph exports; 0: it exports none */
};

struct runner {
    struct backend *backend; /* owned, unless shares_backend is set */
    bool shares_backend;
    struct plan *plan;
    struct plan *store_plan; /* stores keys and values in the same pool; NULL: there is none */
    struct kv_pool *pool;    /* owned, unless shares_pool is set */
    bool shares_pool;
    float *logits; /* [limits.max_logits, n_vocab] */
    /* [limits.max_logits]: for each row of logits a list of the largest logits, which a batch can
     * request instead of the whole row; NULL: the device cannot make lists */
    struct top_row *tops;
    struct plan_limits limits;
    uint32_t n_vocab, n_hidden;
    float *hidden; /* [max_rows or max_logits, n_hidden]: hidden states of the last step; NULL: the
                      graph exports none */
};

/* Creates a runner, which takes ownership of *@backend, unless @params says that it shares the
 * backend; one thread at a time may use all runners of a backend. Returns 0, or -EOPNOTSUPP or
 * -ENOMEM with the reason in @reterr; then the caller keeps *@backend. */
int runner_new(struct backend **backend, const struct runner_params *params,
               struct runner **ret_runner, struct inf_err *reterr);
struct runner *runner_free(struct runner *r);
DEFINE_CLEANUP(struct runner *, runner_free);

/* Adds the plan of runner_store(). @graph: a graph that stores keys and values in the layout of the
 * runner's graph. Returns the errors of runner_new(). */
int runner_add_store(struct runner *r, const struct graph *graph, struct inf_err *reterr);
/* Gives back to the system the memory that no sequence needs. May be called only between steps: the
 * next step gets new memory from the kernel where it needs it. */
void runner_rest(struct runner *r);
/* Returns the largest number of rows that the next step should have. */
uint32_t runner_max_rows(const struct runner *r);
/* Runs one step. Its results, r->logits, r->tops and r->hidden, are valid until the next step.
 * Returns 0, -ENODEV if the device was lost, or another negative errno if it failed. */
int runner_forward(struct runner *r, const struct batch *batch);
/* Runs one step of the plan that runner_add_store() added. @batch requests no logits. Returns the
 * errors of runner_forward(). */
int runner_store(struct runner *r, const struct batch *batch);
/* Adds the first n_accepted[i] drafted rows of each sequence i of the last step, whose batch was
 * @batch, to its recurrent state. Only for devices with accept() (backend/backend.h). */
void runner_accept(struct runner *r, const struct batch *batch, const uint32_t *n_accepted);
/* Fetches the whole row @i of logits of the last step, for which the batch had requested only a
 * list. Returns 0, or an error like runner_forward(). */
int runner_fetch(struct runner *r, uint32_t i);
static inline float *runner_logits(struct runner *r, uint32_t i)
{
    return r->logits + (size_t)i * r->n_vocab;
}
