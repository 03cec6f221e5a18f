/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A model on a device, ready to run: backend, plan, KV pool and the buffer of logits
 *
 * Used by the engine, by inf_bench() and by inf_logits(). One thread at a time.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/pool.h"

struct runner_params {
    const struct graph *graph; /* NULL only for the null device */
    struct kv_layout layout;
    uint32_t n_blocks;
    struct plan_limits limits;
    uint32_t n_vocab; /* width of the logits */
};

struct runner {
    struct backend *backend; /* owned */
    struct plan *plan;
    struct kv_pool *pool;
    float *logits; /* [limits.max_logits, n_vocab] */
    /* [limits.max_logits], with the number of logits that are wanted instead of a whole row; NULL:
     * the device makes no lists. */
    struct top_row *tops;
    struct plan_limits limits;
    uint32_t n_vocab;
};

/* Takes *@backend on success. -EOPNOTSUPP, -ENOMEM with the reason. */
int runner_new(struct backend **backend, const struct runner_params *params,
               struct runner **ret_runner, struct inf_err *reterr);
struct runner *runner_free(struct runner *r);
DEFINE_CLEANUP(struct runner *, runner_free);

/* Between steps: gives back all memory that no sequence needs, until the next step. */
void runner_rest(struct runner *r);
/* Rows that the next step should have at most. */
uint32_t runner_max_rows(const struct runner *r);
/* One step; r->logits and r->tops are valid until the next. Negative errno: the device failed, or
 * -ENODEV: it was lost. */
int runner_forward(struct runner *r, const struct batch *batch);
/* Makes row @i of logits, for which a list was wanted, whole. As runner_forward(). */
int runner_fetch(struct runner *r, uint32_t i);
static inline float *runner_logits(struct runner *r, uint32_t i)
{
    return r->logits + (size_t)i * r->n_vocab;
}
