/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects model files that change while the engine runs.
 *
 * Weights are used in place, in mapped files. A write to such a file changes the mapping at once,
 * so rows that are computed after the write can be wrong. After each step the engine checks whether
 * a file was cut short and pages of its mapping are missing; this check needs no system call. A
 * write is detected only by a system call that reads the attributes of the file. The engine makes
 * this system call before a sequence may finish successfully, and when a request is submitted.
 * After a change all requests end, and no later request finds the computed KV blocks, because they
 * lose their names. The thread of the KV tier checks the files itself, and stores no more blocks
 * after a change.
 */
#include "sched/sched.h"

void sched_end_stale(struct sched *s)
{
    if (s->stale.code == 0)
        file_set_check(&s->files, &s->stale);
    sched_fail_running(s, INF_FINISH_STALE, s->stale.text);
    sched_fail_waiting(s, INF_FINISH_STALE, s->stale.text);
    kv_pool_forget(s->runner->pool);
}

/* Returns whether a sequence of this step ended without an error. */
static bool ended_well(const struct seq *seq)
{
    return seq->state == SEQ_ENDED && seq->finish != INF_FINISH_ERROR;
}

void sched_check_ends(struct sched *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->step.n_parts; i++)
        any |= ended_well(s->step.parts[i].seq);
    if (!any || file_set_check(&s->files, NULL) == 0)
        return;
    sched_end_stale(s);
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        struct seq *seq = s->step.parts[i].seq;

        if (ended_well(seq)) {
            seq->finish = INF_FINISH_STALE;
            seq->error = s->stale.text;
        }
    }
}
