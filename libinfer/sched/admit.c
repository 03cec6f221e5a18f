/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who runs: admission in order of age, sharing of prompts between choices, preemption of the
 * youngest when the KV pool is full.
 *
 * A sequence is admitted with blocks for all tokens that it has; only generated tokens ask for
 * more. The oldest running sequence is never preempted while another runs, and the pool holds one
 * sequence of full length, so the oldest always comes to its end.
 */
#include "sched/sched.h"

#include <errno.h>
#include <string.h>

void sched_wait(struct sched *s, struct seq *seq)
{
    struct seq **at = &s->waiting;

    assert(seq->state == SEQ_WAITING);
    while (*at && (*at)->age < seq->age)
        at = &(*at)->next;
    seq->next = *at;
    *at = seq;
    s->n_waiting++;
}

void sched_unwait(struct sched *s, struct seq *seq)
{
    struct seq **at = &s->waiting;

    while (*at != seq)
        at = &(*at)->next;
    *at = seq->next;
    seq->next = NULL;
    s->n_waiting--;
}

/* A choice of the same request that has the prompt in its blocks; *ret_soon when one is on the
 * way to it. */
static struct seq *find_donor(struct request *req, bool *ret_soon)
{
    *ret_soon = false;
    for (uint32_t i = 0; i < req->n_choices; i++) {
        struct seq *seq = &req->seqs[i];

        if (seq->state != SEQ_RUNNING)
            continue;
        if (seq->n_kv + 1 >= req->n_prompt)
            return seq;
        *ret_soon = true;
    }
    return NULL;
}

enum admission {
    ADMITTED,
    ADMIT_LATER, /* others may go first */
    ADMIT_FULL,  /* nobody may: no room */
    ADMIT_FAILED,
};

/* Shares all of the prompt but its last token: computing that one gives the logits. */
static enum admission take_blocks(struct sched *s, struct seq *seq, const struct seq *donor)
{
    const uint32_t n_shared = donor ? seq->req->n_prompt - 1 : 0;
    uint32_t need;

    if (n_shared > 0)
        kv_table_share(&seq->table, &donor->table, n_shared);
    need = kv_table_need(&seq->table, seq->n_tokens - n_shared);
    /* One block for each that runs: who is admitted shall not be preempted at once. */
    if ((s->n_running > 0 && need + s->n_running > kv_pool_n_free(s->runner->pool)) ||
        kv_table_extend(&seq->table, seq->n_tokens - n_shared) == KV_FULL) {
        assert(s->n_running > 0);
        kv_table_truncate(&seq->table, 0);
        return ADMIT_FULL;
    }
    seq->n_kv = n_shared;
    return ADMITTED;
}

static enum admission admit(struct sched *s, struct seq *seq)
{
    struct seq *donor;
    bool soon;

    if (s->n_running == s->limits.max_seqs)
        return ADMIT_FULL;
    donor = find_donor(seq->req, &soon);
    if (!donor && soon)
        return ADMIT_LATER;
    if (!seq->started) {
        if (seq_start(seq, s->runner->pool, s->tok) < 0)
            return ADMIT_FAILED;
        pthread_mutex_lock(&s->lock);
        s->n_queued -= !seq->req->started;
        s->n_active++;
        pthread_mutex_unlock(&s->lock);
        seq->req->started = true;
    }
    return take_blocks(s, seq, donor);
}

static void insert_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running++;

    assert(s->n_running <= s->limits.max_seqs);
    for (; i > 0 && s->running[i - 1]->age > seq->age; i--)
        s->running[i] = s->running[i - 1];
    s->running[i] = seq;
    seq->state = SEQ_RUNNING;
}

void sched_admit(struct sched *s)
{
    struct seq *seq = s->waiting, *next;

    for (; seq; seq = next) {
        enum admission a;

        next = seq->next;
        a = admit(s, seq);
        if (a == ADMIT_FULL)
            return;
        if (a == ADMIT_LATER)
            continue;
        sched_unwait(s, seq);
        if (a == ADMITTED)
            insert_running(s, seq);
        else
            seq_end(seq, INF_FINISH_ERROR, "out of memory");
    }
}

static void preempt(struct sched *s, uint32_t i)
{
    struct seq *seq = s->running[i];

    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(*s->running));
    s->n_running--;
    kv_table_truncate(&seq->table, 0);
    seq->n_kv = 0;
    seq->state = SEQ_WAITING;
    sched_wait(s, seq);
}

void sched_make_room(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        while (seq->state == SEQ_RUNNING && seq->table.n_tokens < seq->n_tokens &&
               kv_table_extend(&seq->table, seq->n_tokens - seq->table.n_tokens) == KV_FULL) {
            assert(s->n_running > 1);
            preempt(s, s->n_running - 1);
        }
    }
}
