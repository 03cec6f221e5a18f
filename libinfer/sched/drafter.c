/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a draft model.
 *
 * Before a draft, drafter_follow() makes the state of the sequence a beginning of its text. Then
 * the first step of the draft computes the tokens that are missing, and chooses the first drafted
 * token from the last row. Each further step computes the token before. The last drafted token is
 * not computed: whether the text has it is known only later.
 *
 * If the draft model has RECURRENT state (graph/state.h), the state after the text is saved before
 * drafted tokens are computed. If one of them is rejected, this state is restored, and the accepted
 * tokens are computed again.
 *
 * Blocks of windows that later rows do not see are given back when a draft begins, and not during
 * the draft: the text may go on from any of its positions.
 */
#include "sched/drafter-impl.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "draft/rates.h"
#include "sched/assistant.h"
#include "sched/request.h"

/* Creates the samplers, for rows of @n_row logits. -ENOMEM. */
static int make_samplers(struct drafter *d, uint32_t n_row)
{
    samplers_free(d->samplers);
    d->samplers = NULL;
    return samplers_new(d->runner->backend->ops->n_threads(d->runner->backend), d->n_vocab, n_row,
                        &d->samplers);
}

int drafter_new(struct runner **runner, uint32_t n_vocab, struct drafter **ret_drafter)
{
    struct drafter *d = NEW(struct drafter, 1);
    const struct plan_limits *limits = &(*runner)->limits;
    int r = -ENOMEM;

    if (!d)
        return -ENOMEM;
    d->runner = *runner;
    d->n_vocab = MIN(n_vocab, d->runner->n_vocab);
    d->n_all = n_vocab;
    d->is_narrow = n_vocab > d->n_vocab;
    d->n_ctx = limits->max_ctx;
    d->jobs = NEW(struct draft_job, limits->max_seqs);
    d->tokens = NEW(int32_t, limits->max_rows);
    d->logit_rows = NEW(uint32_t, limits->max_logits);
    d->parts = NEW(struct batch_seq, limits->max_seqs);
    d->i_jobs = NEW(uint32_t, limits->max_logits);
    if (d->runner->n_hidden > 0)
        d->input = NEW(float, (size_t)limits->max_rows * d->runner->n_hidden);
    if (d->jobs && d->tokens && d->logit_rows && d->parts && d->i_jobs &&
        (d->input || d->runner->n_hidden == 0))
        r = make_samplers(d, d->runner->n_vocab);
    if (r < 0) {
        d->runner = NULL;
        drafter_free(d);
        return r;
    }
    *runner = NULL;
    *ret_drafter = d;
    return 0;
}

int drafter_use_head(struct drafter *d, const int32_t *tokens)
{
    const size_t n = (size_t)d->n_all * d->runner->backend->ops->n_threads(d->runner->backend);

    d->shift = d->name_shift = 1;
    if (!tokens)
        return 0;
    d->wide = NEW(float, n);
    if (!d->wide)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        d->wide[i] = -INFINITY;
    d->token_of = tokens;
    d->n_vocab = d->n_all;
    d->is_narrow = false;
    return make_samplers(d, d->n_vocab);
}

void drafter_use_assistant(struct drafter *d)
{
    assert(d->input && d->runner->shares_pool);
    d->assists = true;
}

struct drafter *drafter_free(struct drafter *d)
{
    if (!d)
        return NULL;
    samplers_free(d->samplers);
    free(d->jobs);
    free(d->tokens);
    free(d->input);
    free(d->wide);
    free(d->logit_rows);
    free(d->parts);
    free(d->i_jobs);
    runner_free(d->runner);
    free(d);
    return NULL;
}

void drafter_start(struct drafter *d, struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;

    if (d->assists) {
        assistant_start(d, seq);
        return;
    }
    m->ahead = NEW(int32_t, DRAFT_MAX);
    if (d->input)
        m->hidden = NEW(float, (size_t)HIDDEN_ROWS * d->runner->n_hidden);
    if (m->ahead && (m->hidden || !d->input) &&
        kv_table_init(&m->table, d->runner->pool, MIN(seq->req->max_total, d->n_ctx)) == 0)
        return;
    free(m->ahead);
    free(m->hidden);
    *m = (struct seq_model){0};
}

void drafter_stop(struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;

    if (m->table.pool)
        kv_table_done(&m->table);
    free(m->ahead);
    free(m->hidden);
    *m = (struct seq_model){0};
}

void drafter_drop(struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;

    if (m->table.pool)
        kv_table_truncate(&m->table, 0);
    m->n_kv = m->n_ahead = m->n_skipped = m->n_held = 0;
    m->is_followed = false;
}

/* Returns the names of the blocks of a sequence. With `name_shift`, the last row of a block has the
 * first token of the next block, and the block has the name of that next block. */
static const struct kv_name *block_names(const struct drafter *d, const struct seq *seq,
                                         uint32_t *ret_n)
{
    const struct kv_name *names = seq_names(seq, ret_n);

    if (!names || *ret_n < d->name_shift)
        return NULL;
    *ret_n -= d->name_shift;
    return names + d->name_shift;
}

/* Shares blocks that another sequence with the same beginning has computed, for at most @max_rows
 * rows. Returns the number of rows. */
static uint32_t adopt_blocks(struct drafter *d, struct seq *seq, uint32_t max_rows)
{
    struct seq_model *m = &seq->draft.model;
    uint32_t n;
    const struct kv_name *names = block_names(d, seq, &n);
    uint32_t n_usable;

    if (!names)
        return 0;
    n_usable = kv_pool_n_usable(d->runner->pool, names, n, max_rows);
    return n_usable > 0 && kv_table_adopt(&m->table, names, n_usable) == 0 ? n_usable : 0;
}

/* Names the blocks that hold accepted tokens. */
static void name_blocks(const struct drafter *d, struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;
    uint32_t n;
    const struct kv_name *names = block_names(d, seq, &n);

    if (names && m->n_skipped == d->shift)
        kv_table_name(&m->table, names, MIN(n, (m->n_kv - d->shift) / seq->req->block_tokens));
}

bool drafter_has_state(const struct drafter *d, const struct seq *seq)
{
    const struct seq_model *m = &seq->draft.model;

    return (d->assists ? m->hidden != NULL : m->table.pool != NULL) && seq->n_tokens < d->n_ctx;
}

uint32_t drafter_follow(struct drafter *d, struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;
    uint32_t n_right = 0;

    if (d->assists)
        return assistant_follow(d, seq);
    if (!m->table.pool || seq->n_tokens >= d->n_ctx)
        return UINT32_MAX;
    if (d->input) {
        m->n_ahead = 0;
        kv_table_truncate(&m->table, m->n_kv - m->n_skipped);
        name_blocks(d, seq);
        return m->is_followed && m->n_kv + m->n_held >= seq->n_tokens ? seq->n_tokens - m->n_kv
                                                                      : UINT32_MAX;
    }
    while (n_right < m->n_ahead && m->n_kv + n_right + 1 < seq->n_tokens &&
           seq->tokens[m->n_kv + n_right] == m->ahead[n_right])
        n_right++;
    if (n_right < m->n_ahead && kv_table_has_saved(&m->table)) {
        kv_table_restore(&m->table);
        n_right = 0;
    }
    kv_table_drop_saved(&m->table);
    m->n_kv += n_right;
    m->n_ahead = 0;
    kv_table_truncate(&m->table, m->n_kv);
    if (m->n_kv == 0)
        m->n_kv = adopt_blocks(d, seq, seq->n_tokens - 1);
    else
        name_blocks(d, seq);
    return seq->n_tokens - m->n_kv;
}

void drafter_begin_step(struct drafter *d)
{
    d->n_rows = d->n_parts = d->n_logits = 0;
}

/* Adds @n_rows rows of the text from position @pos on to the step. A token that the draft model
 * does not have is replaced. @hidden [n_rows, n_hidden]: the input of the rows; NULL if the drafter
 * has a draft model. */
void drafter_add_rows(struct drafter *d, const struct seq *seq, uint32_t pos, uint32_t n_rows,
                      const float *hidden)
{
    const struct seq_model *m = &seq->draft.model;
    const size_t n_hidden = d->runner->n_hidden;

    d->parts[d->n_parts++] = d->assists
                                 ? assistant_part(seq, d->n_rows)
                                 : kv_table_part(&m->table, d->n_rows, pos - m->n_skipped, n_rows);
    if (hidden)
        memcpy(d->input + d->n_rows * n_hidden, hidden, n_rows * n_hidden * sizeof(float));
    for (uint32_t i = 0; i < n_rows; i++) {
        const int32_t token = seq->tokens[pos - d->shift + d->name_shift + i];

        d->tokens[d->n_rows++] = (uint32_t)token < d->n_vocab ? token : 0;
    }
}

/* Requests the logits of the last row that was added. */
void drafter_want_logits(struct drafter *d, uint32_t i_job)
{
    d->jobs[i_job].i_logit = d->n_logits;
    d->i_jobs[d->n_logits] = i_job;
    d->logit_rows[d->n_logits++] = d->n_rows - 1;
}

int drafter_run_step(struct drafter *d)
{
    const struct batch batch = {
        .n_rows = d->n_rows,
        .tokens = d->tokens,
        .input = d->input,
        .n_seqs = d->n_parts,
        .seqs = d->parts,
        .n_logits = d->n_logits,
        .logit_rows = d->logit_rows,
    };

    if (d->block > 0)
        return runner_store(d->runner, &batch);
    for (uint32_t i = 0; d->runner->tops && i < d->n_logits; i++)
        d->runner->tops[i].n_wanted = 0;
    return runner_forward(d->runner, &batch);
}

/* Makes room for @n_rows rows after the computed tokens, of which the first @n_text are tokens of
 * the text. Returns the number of rows for which there is room. */
uint32_t drafter_make_room(struct seq_model *m, uint32_t n_rows)
{
    uint32_t n;

    if (kv_table_reserve(&m->table, n_rows) == KV_FULL)
        return 0;
    n = kv_table_open(&m->table, m->n_kv - m->n_skipped, n_rows);
    kv_table_truncate(&m->table, m->n_kv - m->n_skipped + n);
    return n;
}

/* Records that the state includes @n more tokens of the text, and drops their hidden states. */
void drafter_count_rows(const struct drafter *d, struct seq_model *m, uint32_t n)
{
    const size_t n_hidden = d->runner->n_hidden;

    m->n_kv += n;
    if (!m->hidden)
        return;
    assert(n <= m->n_held);
    m->n_held -= n;
    memmove(m->hidden, m->hidden + n * n_hidden, m->n_held * n_hidden * sizeof(float));
}

/* Returns how many tokens after the computed ones the next step may compute, so that it ends at
 * the last border between blocks: there a snapshot is made (kv/pool.h). */
static uint32_t rows_to_border(const struct drafter *d, const struct seq *seq)
{
    const struct seq_model *m = &seq->draft.model;
    const uint32_t n_text = seq->n_tokens - 1,
                   end = n_text - n_text % kv_pool_block_tokens(d->runner->pool);

    return end > m->n_kv && kv_pool_has_rule(d->runner->pool, STATE_RECURRENT) ? end - m->n_kv
                                                                               : n_text - m->n_kv;
}

/* Makes a snapshot if the computed tokens end at a border. */
static void note_border(const struct drafter *d, struct seq *seq)
{
    struct seq_model *m = &seq->draft.model;
    const uint32_t border = m->n_kv / kv_pool_block_tokens(d->runner->pool);
    uint32_t n;
    const struct kv_name *names = seq_names(seq, &n);

    name_blocks(d, seq);
    if (names && m->n_skipped == 0 && border > 0 && border <= n && border == m->table.n_named &&
        m->n_kv % kv_pool_block_tokens(d->runner->pool) == 0)
        kv_table_snapshot(&m->table, names, border);
}

int drafter_catch_up(struct drafter *d, struct seq **seqs, uint32_t n, uint32_t max_rows)
{
    uint32_t left = MIN(max_rows, runner_max_rows(d->runner));
    const uint64_t begin = clock_usec();
    int r;

    drafter_begin_step(d);
    for (uint32_t i = 0; i < n && left > 0; i++) {
        struct seq_model *m = &seqs[i]->draft.model;
        const uint32_t n_known = m->hidden ? m->n_held : UINT32_MAX;
        const uint32_t n_rows =
            drafter_make_room(m, MIN(MIN(rows_to_border(d, seqs[i]), n_known), left));

        if (n_rows == 0)
            continue;
        drafter_add_rows(d, seqs[i], m->n_kv, n_rows, m->hidden);
        left -= n_rows;
    }
    if (d->n_rows == 0)
        return 0;
    r = drafter_run_step(d);
    for (uint32_t i = 0; i < n; i++) {
        struct seq_model *m = &seqs[i]->draft.model;

        drafter_count_rows(d, m, m->table.n_tokens + m->n_skipped - m->n_kv);
        if (r < 0)
            drafter_drop(seqs[i]);
        else
            note_border(d, seqs[i]);
    }
    if (r == 0 && d->n_rows >= 16)
        d->row_usec = (double)(clock_usec() - begin) / d->n_rows;
    return r;
}

/* Begins the state of a sequence anew with the token at @pos, or with a draft head, with the token
 * after it. The hidden state before the token at @pos is not known. If the drafter does not have
 * the blocks of all tokens before @pos, the state lacks some of these tokens. */
static void begin_state(struct drafter *d, struct seq *seq, uint32_t pos)
{
    struct seq_model *m = &seq->draft.model;
    uint32_t n_rows;

    drafter_drop(seq);
    n_rows = adopt_blocks(d, seq, pos);
    m->n_kv = pos + d->shift;
    m->n_skipped = m->n_kv - n_rows;
    memset(m->hidden, 0, d->runner->n_hidden * sizeof(float));
    m->n_held = 1 - d->shift;
    m->is_followed = true;
}

int drafter_take_hidden(struct drafter *d, struct seq *seq, uint32_t pos, uint32_t n,
                        const float *hidden)
{
    struct seq_model *m = &seq->draft.model;
    const size_t n_hidden = d->runner->n_hidden;
    uint32_t n_more, end;
    int r = 0;

    if (!m->hidden || pos + n >= d->n_ctx)
        return 0;
    /* The state may have drafted tokens, which are dropped before more tokens are computed. */
    m->n_ahead = 0;
    kv_table_truncate(&m->table, m->n_kv - m->n_skipped);
    if (!m->is_followed || pos > m->n_kv + m->n_held - 1)
        begin_state(d, seq, pos);
    for (end = m->n_kv + m->n_held - 1; r == 0 && end < pos + n; end += n_more) {
        n_more = MIN(pos + n - end, HIDDEN_ROWS - m->n_held);
        memcpy(m->hidden + m->n_held * n_hidden, hidden + (end - pos) * n_hidden,
               n_more * n_hidden * sizeof(float));
        m->n_held += n_more;
        if (m->n_held < HIDDEN_ROWS)
            continue;
        r = drafter_catch_up(d, &seq, 1, HIDDEN_ROWS);
        /* There are no free blocks: the state begins anew with the next step. */
        if (m->n_held == HIDDEN_ROWS) {
            drafter_drop(seq);
            return r;
        }
    }
    return r;
}

/* Adds the first rows of a job: the tokens of the text that are missing. Makes room for the whole
 * draft, or makes the draft shorter. */
static void begin_job(struct drafter *d, uint32_t i_job, uint32_t n_left_rows)
{
    struct draft_job *job = &d->jobs[i_job];
    struct seq_model *m = &job->seq->draft.model;
    const uint32_t n_text = job->seq->n_tokens - m->n_kv;
    uint32_t n_room;

    if (d->assists) {
        assistant_begin(d, i_job, n_left_rows);
        return;
    }
    assert(m->n_ahead == 0 && m->table.n_tokens == m->n_kv - m->n_skipped && n_text > 0);

    job->n = 0;
    job->n_wanted = MIN(job->n_wanted, d->n_ctx - job->seq->n_tokens);
    if (n_text > n_left_rows || job->n_wanted == 0)
        n_room = 0;
    else
        n_room = drafter_make_room(m, n_text + job->n_wanted - 1);
    if (n_room < n_text) {
        kv_table_truncate(&m->table, m->n_kv - m->n_skipped);
        job->n_wanted = 0;
        return;
    }
    job->n_wanted = n_room - n_text + 1;
    drafter_copy_sampling(job);
    drafter_add_rows(d, job->seq, m->n_kv, n_text, m->hidden);
    drafter_want_logits(d, i_job);
}

/* Records what the step at position @position computed for a job. */
static void end_row(const struct drafter *d, struct draft_job *job, uint32_t position)
{
    struct seq_model *m = &job->seq->draft.model;

    if (d->assists)
        return;
    if (position == 0) {
        drafter_count_rows(d, m, job->seq->n_tokens - m->n_kv);
        if (job->n_wanted > 1 && kv_table_save(&m->table) == KV_FULL)
            job->n_wanted = 1;
    } else {
        m->ahead[m->n_ahead++] = job->seq->tokens[job->seq->n_tokens + position - 1];
    }
}

/* Returns the hidden state that the newest step computed for a job; NULL: the drafter has a draft
 * model. */
static const float *own_hidden(const struct drafter *d, const struct draft_job *job)
{
    return d->input ? d->runner->hidden + (size_t)job->i_logit * d->runner->n_hidden : NULL;
}

void drafter_fail_jobs(struct drafter *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        drafter_drop(d->jobs[i].seq);
        d->jobs[i].n = 0;
    }
}

int drafter_draft(struct drafter *d, uint32_t n, uint64_t *ret_usec, uint32_t *ret_n_seqs)
{
    if (d->block > 0)
        return drafter_draft_blocks(d, n, ret_usec, ret_n_seqs);
    for (uint32_t k = 0; k < DRAFT_MAX; k++) {
        const uint64_t begin = clock_usec();
        int r;

        drafter_begin_step(d);
        for (uint32_t i = 0; i < n; i++) {
            struct draft_job *job = &d->jobs[i];

            if (k == 0) {
                begin_job(d, i, runner_max_rows(d->runner) - d->n_rows);
            } else if (job->n_wanted > k) {
                drafter_add_rows(d, job->seq, job->seq->n_tokens + k - 1, 1, own_hidden(d, job));
                drafter_want_logits(d, i);
            }
        }
        ret_n_seqs[k] = d->n_parts;
        if (d->n_parts == 0)
            break;
        r = drafter_run_step(d);
        if (r < 0) {
            drafter_fail_jobs(d, n);
            return r;
        }
        for (uint32_t i = 0; i < d->n_logits; i++)
            end_row(d, &d->jobs[d->i_jobs[i]], k);
        drafter_take_logits(d);
        ret_usec[k] = clock_usec() - begin;
    }
    return 0;
}
