/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a runner: compiles the plan (backend/backend.h) and allocates all memory, so that a step
 * allocates nothing.
 */
#include "sched/runner.h"

#include <errno.h>

#include "core/err.h"
#include "core/pages.h"

int runner_new(struct backend **backend, const struct runner_params *params,
               struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(runner_freep) struct runner *r = NEW(struct runner, 1);
    struct backend *b = *backend;
    uint64_t n_logits;
    int k;

    if (!r || !size_mul(params->limits.max_logits, params->n_vocab, &n_logits))
        return err_set(reterr, ENOMEM, "out of memory");
    r->limits = params->limits;
    r->n_vocab = params->n_vocab;
    r->logits = NEW(float, n_logits);
    if (!r->logits)
        return err_set(reterr, ENOMEM, "no memory for %u rows of logits", r->limits.max_logits);
    r->n_hidden = params->n_hidden;
    if (r->n_hidden > 0) {
        r->hidden = NEW(float, (size_t)MAX(r->limits.max_rows, r->limits.max_logits) * r->n_hidden);
        if (!r->hidden)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    if (b->ops->logits) {
        r->tops = NEW(struct top_row, params->limits.max_logits);
        if (!r->tops)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    /* r->backend is set last, because runner_free() frees the backend, which belongs to the caller
     * until success. */
    r->shares_pool = params->pool;
    r->pool = params->pool;
    k = params->pool ? 0 : kv_pool_new(b, &params->layout, &r->pool);
    if (k < 0)
        return err_set(reterr, -k, "no memory for %u blocks of KV cache",
                       params->layout.n_blocks[0]);
    k = b->ops->compile(b, params->graph, &params->limits, kv_pool_store(r->pool), &r->plan,
                        reterr);
    if (k < 0) {
        if (k == -ENOMEM)
            err_set(reterr, ENOMEM, "out of memory");
        return k;
    }
    r->shares_backend = params->shares_backend;
    r->backend = params->shares_backend ? *backend : STEAL(*backend);
    *ret_runner = STEAL(r);
    return 0;
}

int runner_add_store(struct runner *r, const struct graph *graph, struct inf_err *reterr)
{
    const int k = r->backend->ops->compile(r->backend, graph, &r->limits, kv_pool_store(r->pool),
                                           &r->store_plan, reterr);

    return k == -ENOMEM ? err_set(reterr, ENOMEM, "out of memory") : k;
}

struct runner *runner_free(struct runner *r)
{
    if (!r)
        return NULL;
    if (r->store_plan)
        r->backend->ops->plan_free(r->backend, r->store_plan);
    if (r->plan)
        r->backend->ops->plan_free(r->backend, r->plan);
    if (!r->shares_pool)
        kv_pool_free(r->pool);
    if (!r->shares_backend)
        backend_free(r->backend);
    free(r->logits);
    free(r->hidden);
    free(r->tops);
    free(r);
    return NULL;
}

void runner_rest(struct runner *r)
{
    if (!r->shares_pool)
        kv_pool_rest(r->pool);
    r->backend->ops->plan_rest(r->backend, r->plan);
    if (r->store_plan)
        r->backend->ops->plan_rest(r->backend, r->store_plan);
    pages_drop(r->logits, (size_t)r->limits.max_logits * r->n_vocab * sizeof(float));
}

uint32_t runner_max_rows(const struct runner *r)
{
    const struct backend_ops *ops = r->backend->ops;

    return ops->max_rows ? MIN(ops->max_rows(r->backend, r->plan), r->limits.max_rows)
                         : r->limits.max_rows;
}

int runner_forward(struct runner *r, const struct batch *batch)
{
    struct batch own = *batch;

    assert(batch->n_rows <= r->limits.max_rows && batch->n_logits <= r->limits.max_logits);
    own.exported = r->hidden;
    return r->backend->ops->run(r->backend, r->plan, kv_pool_store(r->pool), &own, r->logits,
                                r->tops);
}

int runner_store(struct runner *r, const struct batch *batch)
{
    assert(r->store_plan && batch->n_rows <= r->limits.max_rows && batch->n_logits == 0);
    return r->backend->ops->run(r->backend, r->store_plan, kv_pool_store(r->pool), batch, r->logits,
                                NULL);
}

void runner_accept(struct runner *r, const struct batch *batch, const uint32_t *n_accepted)
{
    r->backend->ops->accept(r->backend, r->plan, kv_pool_store(r->pool), batch, n_accepted);
}

int runner_fetch(struct runner *r, uint32_t i)
{
    assert(i < r->limits.max_logits && r->tops[i].n_wanted > 0);
    return r->backend->ops->logits(r->backend, r->plan, i, runner_logits(r, i));
}
