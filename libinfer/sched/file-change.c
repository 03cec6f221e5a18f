/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that change under the engine
 *
 * A mapping shows what is written to its file at once, so that from some moment on rows are those
 * of another model, or of none. Pages that went are seen after each step; a file that was written
 * to is seen when somebody looks at it, which takes a system call: before a sequence is told to
 * have ended well, and when requests are submitted. All requests end then, and nothing that was
 * computed is named any more, nor kept by the tier, which looks for itself.
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

/* Whether a sequence of this step ended, and not by a failure. */
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
