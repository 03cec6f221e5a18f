/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what an assistant needs of a sequence, and makes its rows (assistant.h). */
#include "sched/assistant.h"

#include <string.h>

#include "sched/drafter-impl.h"
#include "sched/request.h"

void assistant_start(const struct drafter *d, struct seq *seq)
{
    seq->draft.model = (struct seq_model){.hidden = NEW(float, d->runner->n_hidden)};
}

void assistant_take(const struct drafter *d, struct seq *seq, const float *hidden)
{
    struct seq_model *m = &seq->draft.model;

    if (!m->hidden)
        return;
    memcpy(m->hidden, hidden, d->runner->n_hidden * sizeof(float));
    m->n_kv = seq->n_kv;
    m->n_held = 1;
}

uint32_t assistant_follow(const struct drafter *d, const struct seq *seq)
{
    const struct seq_model *m = &seq->draft.model;

    return drafter_has_state(d, seq) && m->n_held > 0 && m->n_kv == seq->n_kv &&
                   seq->n_tokens == seq->n_kv + 1
               ? 1
               : UINT32_MAX;
}

struct batch_seq assistant_part(const struct seq *seq, uint32_t i_row)
{
    return kv_table_part(&seq->table, i_row, seq->n_tokens - 1, 1);
}

void assistant_begin(struct drafter *d, uint32_t i_job, uint32_t n_left_rows)
{
    struct draft_job *job = &d->jobs[i_job];
    const struct seq *seq = job->seq;

    job->n = 0;
    job->n_wanted = n_left_rows > 0 ? MIN(job->n_wanted, d->n_ctx - seq->n_tokens) : 0;
    if (job->n_wanted == 0)
        return;
    drafter_copy_sampling(job);
    drafter_add_rows(d, seq, seq->n_tokens - 1, 1, seq->draft.model.hidden);
    drafter_want_logits(d, i_job);
}
