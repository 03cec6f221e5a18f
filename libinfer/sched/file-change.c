/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detection of model files that change while the engine runs
 *
 * A mapping shows a write to its file at once, so the rows computed after it can be wrong. Removed
 * pages are detected after each step. A write to a file is detected only by a system call that
 * compares its attributes. This check runs before a sequence may finish successfully, and when a
 * request is submitted. After a change all requests end, computed blocks lose their names, and the
 * tier, which checks by itself, stores nothing more.
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

/* Whether a sequence of this step ended without an error. */
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
