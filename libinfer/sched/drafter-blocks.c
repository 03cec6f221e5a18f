/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drafts blocks of tokens, each in one step of the draft head.
 *
 * The rows of a block are the newest token of the text and a mask for each token that is drafted.
 * All tokens of a block are chosen from the logits of one step, one after another, because
 * penalties, grammars and random numbers depend on the tokens before.
 */
#include <stdatomic.h>

#include "core/clock.h"
#include "draft/rates.h"
#include "sched/drafter-impl.h"
#include "sched/request.h"

void drafter_use_blocks(struct drafter *d, uint32_t block, int32_t mask)
{
    d->shift = 1;
    d->block = block;
    d->mask = mask;
}

uint32_t drafter_max_tokens(const struct drafter *d)
{
    return d->block > 0 ? MIN(d->block - 1, DRAFT_MAX) : DRAFT_MAX;
}

/* Limits the tokens of a job to the places of the step, of which *@n_left are left, and to the
 * blocks of the pool. Adds the rows whose keys and values are missing. */
static void begin_job(struct drafter *d, struct draft_job *job, uint32_t *n_left)
{
    struct seq_model *m = &job->seq->draft.model;
    const uint32_t n_text = job->seq->n_tokens - m->n_kv;
    uint32_t n_room = 0;

    job->n = 0;
    job->n_wanted = MIN(MIN(job->n_wanted, drafter_max_tokens(d)), d->n_ctx - job->seq->n_tokens);
    job->n_wanted = *n_left > 0 ? MIN(job->n_wanted, *n_left - 1) : 0;
    if (job->n_wanted > 0 && n_text <= runner_max_rows(d->runner) - d->n_rows)
        n_room = drafter_make_room(m, n_text + 1 + job->n_wanted);
    if (n_room < n_text + 2) {
        kv_table_truncate(&m->table, m->n_kv - m->n_skipped);
        job->n_wanted = 0;
        return;
    }
    job->n_wanted = n_room - n_text - 1;
    *n_left -= 1 + job->n_wanted;
    drafter_copy_sampling(job);
    drafter_add_rows(d, job->seq, m->n_kv, n_text, m->hidden);
}

/* Adds the rows of a block, and requests the logits of all but the first. */
static void add_block(struct drafter *d, struct draft_job *job)
{
    const struct seq_model *m = &job->seq->draft.model;
    const int32_t newest = job->seq->tokens[job->seq->n_tokens - 1];

    job->i_logit = d->n_logits;
    if (job->n_wanted == 0)
        return;
    d->parts[d->n_parts++] =
        kv_table_part(&m->table, d->n_rows, m->n_kv - m->n_skipped, 1 + job->n_wanted);
    d->tokens[d->n_rows++] = newest;
    for (uint32_t i = 0; i < job->n_wanted; i++) {
        d->logit_rows[d->n_logits++] = d->n_rows;
        d->tokens[d->n_rows++] = d->mask;
    }
}

static void take_blocks(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    struct drafter *d = arg;
    uint32_t i;

    while ((i = atomic_fetch_add_explicit(&d->next_logit, 1, memory_order_relaxed)) <
           d->n_block_jobs) {
        struct draft_job *job = &d->jobs[i];

        while (job->n < job->n_wanted &&
               drafter_pick(d, d->samplers[i_thread], job,
                            runner_logits(d->runner, job->i_logit + job->n)))
            job->n++;
    }
}

/* Runs the step of the blocks, and chooses their tokens. */
static int run_blocks(struct drafter *d, uint32_t n)
{
    struct backend *b = d->runner->backend;
    const struct batch batch = {
        .n_rows = d->n_rows,
        .tokens = d->tokens,
        .n_seqs = d->n_parts,
        .seqs = d->parts,
        .n_logits = d->n_logits,
        .logit_rows = d->logit_rows,
    };
    int r;

    for (uint32_t i = 0; d->runner->tops && i < d->n_logits; i++)
        d->runner->tops[i].n_wanted = 0;
    r = runner_forward(d->runner, &batch);
    if (r < 0)
        return r;
    d->n_block_jobs = n;
    atomic_store_explicit(&d->next_logit, 0, memory_order_relaxed);
    if (d->n_parts > 1)
        b->ops->parallel(b, take_blocks, d);
    else
        take_blocks(d, 0, 1);
    return 0;
}

int drafter_draft_blocks(struct drafter *d, uint32_t n, uint64_t *ret_usec, uint32_t *ret_n_seqs)
{
    const uint64_t begin = clock_usec();
    uint32_t n_left = MIN(runner_max_rows(d->runner), d->runner->limits.max_logits);
    int r;

    ret_n_seqs[0] = ret_n_seqs[1] = 0;
    drafter_begin_step(d);
    for (uint32_t i = 0; i < n; i++)
        begin_job(d, &d->jobs[i], &n_left);
    if (d->n_rows == 0)
        return 0;
    r = drafter_run_step(d);
    drafter_begin_step(d);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        struct draft_job *job = &d->jobs[i];

        if (job->n_wanted > 0)
            drafter_count_rows(d, &job->seq->draft.model,
                               job->seq->n_tokens - job->seq->draft.model.n_kv);
        add_block(d, job);
    }
    if (r == 0)
        r = run_blocks(d, n);
    if (r < 0) {
        drafter_fail_jobs(d, n);
        return r;
    }
    ret_usec[0] = clock_usec() - begin;
    ret_n_seqs[0] = d->n_logits;
    return 0;
}
