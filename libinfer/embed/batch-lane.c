/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the batch of a lane with texts, computes the batch, and delivers the vectors.
 */
#include "embed/batch-lane.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/err.h"
#include "core/pages.h"

/* Tokens per block of the KV store. Short texts write only a small part of their blocks. */
#define BLOCK_TOKENS 64u

static int make_store(struct lane *l)
{
    struct kv_layout layout;

    l->n_blocks = l->max_rows / BLOCK_TOKENS + l->max_seqs;
    layout = kv_layout_full(1, l->params.n_kv_heads, l->params.head_dim, BLOCK_TOKENS, CODEC_F32,
                            l->n_blocks);
    return l->backend->ops->kv_new(l->backend, &layout, &l->store);
}

static int make_arrays(struct lane *l)
{
    l->seqs = NEW(struct batch_seq, l->max_seqs);
    l->texts = NEW(struct lane_text, l->max_seqs);
    l->blocks = NEW(uint32_t, l->n_blocks);
    l->tokens = NEW(int32_t, l->max_rows);
    l->types = NEW(uint8_t, l->max_rows);
    l->logit_rows = NEW(uint32_t, l->max_logits);
    if (!l->seqs || !l->texts || !l->blocks || !l->tokens || !l->types || !l->logit_rows)
        return -ENOMEM;
    if (l->params.padding >= 0 && !(l->positions = NEW(uint32_t, l->max_rows)))
        return -ENOMEM;
    for (uint32_t i = 0; i < l->n_blocks; i++)
        l->blocks[i] = i;
    l->out_size = (uint64_t)l->max_logits * l->params.width * sizeof(float);
    l->out = mmap(NULL, l->out_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (l->out == MAP_FAILED) {
        l->out = NULL;
        return -ENOMEM;
    }
    return 0;
}

int lane_init(struct lane *l, struct backend *backend, const struct lane_params *params,
              struct inf_err *reterr)
{
    int r;

    l->backend = backend;
    l->params = *params;
    l->max_rows = MAX(params->batch_tokens, params->max_tokens);
    l->max_seqs = params->batch_tokens;
    l->max_logits = params->pick == JOB_PICK_ALL ? l->max_rows : l->max_seqs;
    r = make_store(l);
    if (r == 0)
        r = make_arrays(l);
    return r < 0 ? err_set(reterr, -r, "no memory for batches of %u tokens", l->max_rows) : 0;
}

int lane_add_plan(struct lane *l, const struct graph *graph, struct inf_err *reterr)
{
    const struct plan_limits limits = {
        .max_rows = l->max_rows,
        .max_logits = l->max_logits,
        .max_seqs = l->max_seqs,
        .max_ctx = l->params.max_tokens,
    };
    int r;

    assert(l->n_plans < LANE_MAX_PLANS);
    r = l->backend->ops->compile(l->backend, graph, &limits, l->store, &l->plans[l->n_plans],
                                 reterr);
    if (r == 0)
        l->n_plans++;
    return r;
}

void lane_done(struct lane *l)
{
    for (uint32_t i = 0; i < l->n_plans; i++)
        l->backend->ops->plan_free(l->backend, l->plans[i]);
    if (l->store)
        l->backend->ops->kv_free(l->backend, l->store);
    free(l->seqs);
    free(l->texts);
    free(l->blocks);
    free(l->tokens);
    free(l->types);
    free(l->positions);
    free(l->logit_rows);
    if (l->out)
        munmap(l->out, l->out_size);
    *l = (struct lane){0};
}

bool lane_has_room(const struct lane *l, uint32_t i_task, size_t n)
{
    return l->batch.n_seqs == 0 || (l->i_task == i_task && l->batch.n_seqs < l->max_seqs &&
                                    l->batch.n_rows + n <= l->params.batch_tokens);
}

static void ask_rows(struct lane *l, uint32_t first, uint32_t n)
{
    struct batch *b = &l->batch;

    switch (l->params.pick) {
    case JOB_PICK_FIRST:
        l->logit_rows[b->n_logits++] = first;
        break;
    case JOB_PICK_LAST:
        l->logit_rows[b->n_logits++] = first + n - 1;
        break;
    case JOB_PICK_ALL:
        for (uint32_t i = 0; i < n; i++)
            l->logit_rows[b->n_logits++] = first + i;
        break;
    }
}

/* Sets the positions of a text as RoBERTa counts them. */
static void count_positions(struct lane *l, uint32_t first, uint32_t n)
{
    uint32_t position = 0;

    for (uint32_t i = first; l->positions && i < first + n; i++)
        l->positions[i] = l->tokens[i] == l->params.padding ? 0 : ++position;
}

void lane_add(struct lane *l, struct job *job, size_t i_text)
{
    const struct job_text *t = &job->texts[i_text];
    const uint32_t first = l->batch.n_rows, n = (uint32_t)t->n, i = l->batch.n_seqs;
    const struct batch_seq *before = i > 0 ? &l->seqs[i - 1] : NULL;

    assert(lane_has_room(l, job->i_task, t->n) && first + n <= l->max_rows);
    l->i_task = job->i_task;
    l->large = i == 0 && n > l->params.batch_tokens;
    l->texts[i] = (struct lane_text){job, i_text};
    l->seqs[i] = (struct batch_seq){
        .i_row = first,
        .n_rows = n,
        .n_seen = (uint32_t)t->n_seen,
        .n_blocks = DIV_UP(n, BLOCK_TOKENS),
        .blocks = {before ? before->blocks[0] + before->n_blocks : l->blocks},
    };
    memcpy(l->tokens + first, job->tokens + t->first, n * sizeof(int32_t));
    if (job->types)
        memcpy(l->types + first, job->types + t->first, n);
    else
        memset(l->types + first, 0, n);
    count_positions(l, first, n);
    ask_rows(l, first, n);
    l->batch.n_rows = first + n;
    l->batch.n_seqs = i + 1;
}

bool lane_run(struct lane *l, bool part, int *ret_error)
{
    const struct backend_ops *ops = l->backend->ops;
    struct plan *plan = l->plans[l->i_task];
    struct batch *b = &l->batch;

    b->tokens = l->tokens;
    b->types = l->types;
    b->positions = l->positions;
    b->seqs = l->seqs;
    b->logit_rows = l->logit_rows;
    if (part && ops->run_part) {
        *ret_error = ops->run_part(l->backend, plan, l->store, b, l->out, &l->i_stage);
        return *ret_error < 0 || l->i_stage == 0;
    }
    *ret_error = ops->run(l->backend, plan, l->store, b, l->out, NULL);
    return true;
}

void lane_deliver(const struct lane *l)
{
    const float *row = l->out;

    for (uint32_t i = 0; i < l->batch.n_seqs; i++) {
        const struct lane_text *t = &l->texts[i];
        const size_t n = l->params.pick == JOB_PICK_ALL ? t->job->texts[t->i_text].n : 1;

        for (size_t j = 0; j < n; j++, row += l->params.width)
            job_put(t->job, t->job->texts[t->i_text].i_vector + j, row);
    }
}

void lane_clear(struct lane *l)
{
    l->batch = (struct batch){0};
    l->i_stage = 0;
}

void lane_rest(struct lane *l)
{
    if (!l->large)
        return;
    l->large = false;
    for (uint32_t i = 0; i < l->n_plans; i++)
        l->backend->ops->plan_rest(l->backend, l->plans[i]);
    l->backend->ops->kv_drop(l->backend, l->store, 0, l->n_blocks);
    pages_drop(l->out, l->out_size);
}
