/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admits and preempts sequences.
 *
 * Admission moves a sequence from the waiting list to the running sequences and gives it KV blocks
 * from the pool. Waiting sequences are admitted in order of age. The choices of a request (its
 * answers, one sequence each) share the prompt's blocks, and all sequences share blocks that the
 * pool finds by name. When the KV pool is full, the youngest running sequence is preempted: it
 * gives its blocks back and waits again.
 *
 * A sequence is admitted with blocks for all its tokens, so it needs more blocks only for the
 * tokens that it generates later. The oldest running sequence is never preempted while another
 * runs. The pool holds at least one sequence of full length, so the oldest sequence always
 * finishes.
 */
#include "sched/sched.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/histogram.h"

void sched_enqueue(struct sched *s, struct seq *seq)
{
    struct seq **at = &s->waiting;

    assert(seq->state == SEQ_WAITING);
    while (*at && (*at)->age < seq->age)
        at = &(*at)->next;
    seq->next = *at;
    *at = seq;
    s->n_waiting++;
}

void sched_dequeue(struct sched *s, struct seq *seq)
{
    struct seq **at = &s->waiting;

    while (*at != seq)
        at = &(*at)->next;
    *at = seq->next;
    seq->next = NULL;
    s->n_waiting--;
}

/* Finds another choice of the request @req whose blocks already hold the prompt. Sets *ret_soon if
 * a choice is still computing the prompt. */
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
    ADMIT_LATER, /* this sequence must wait, but others may be admitted before it */
    ADMIT_FULL,  /* the pool is full: no sequence can be admitted */
    ADMIT_FAILED,
};

/* Returns how many of the sequence's first blocks the pool finds by name and may share. */
static uint32_t count_known(const struct sched *s, const struct seq *seq)
{
    uint32_t n;
    const struct kv_name *names = seq_names(seq, &n);

    return names && !seq_needs_rows(seq) ? kv_pool_n_known(s->runner->pool, names, n) : 0;
}

/* Returns whether a running sequence is about to compute the block that follows the @n_known blocks
 * which the pool finds by name. */
static bool is_on_the_way(const struct sched *s, const struct seq *seq, uint32_t n_known)
{
    uint32_t n;
    const struct kv_name *names = seq_names(seq, &n);

    if (n_known >= n || seq_needs_rows(seq))
        return false;
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *other = s->running[i];

        if (other->state == SEQ_RUNNING && other->n_names > n_known &&
            kv_table_is_current(&other->table) &&
            kv_name_equal(&other->names[n_known], &names[n_known]))
            return true;
    }
    return false;
}

/* Shares with @seq either the blocks of @donor, another choice that has the prompt, or the @n_known
 * blocks that the pool finds by name, whichever have more tokens. Returns the number of shared
 * tokens. The last token is never among them: it must be computed, because its logits are
 * needed. */
static uint32_t share_blocks(struct seq *seq, const struct seq *donor, uint32_t n_known)
{
    const uint32_t n_given = donor ? seq->req->n_prompt - 1 : 0;
    const uint64_t n_found = (uint64_t)n_known * seq->req->block_tokens;
    const uint32_t n = (uint32_t)MIN(n_found, seq->n_tokens - 1);

    if (n > n_given) {
        kv_table_adopt(&seq->table, seq->names, n);
        return n;
    }
    if (n_given > 0)
        kv_table_share(&seq->table, &donor->table, n_given);
    return n_given;
}

/* Marks the blocks that were found by name as reused. Tells the tier which of its blocks are
 * used. */
static void note_found(struct sched *s, struct seq *seq)
{
    uint32_t n_kept = 0;

    if (!s->tier || !seq->names || seq->req->n_seen > 0)
        return;
    for (uint32_t i = 0; i < seq->table.n_named; i++)
        if (keep_found(&s->keep, seq->table.blocks[i]) && n_kept == i)
            n_kept++;
    tier_note_used(s->tier, seq->req->owner, seq->names, n_kept);
}

static enum admission take_blocks(struct sched *s, struct seq *seq, const struct seq *donor,
                                  uint32_t n_known)
{
    const uint32_t n_shared = share_blocks(seq, donor, n_known);
    const uint32_t need = kv_table_need(&seq->table, seq->n_tokens - n_shared);

    /* Keep one free block for each running sequence, so that the sequence that is admitted now is
     * not preempted at once. */
    if ((s->n_running > 0 && need + s->n_running > kv_pool_n_free(s->runner->pool)) ||
        kv_table_extend(&seq->table, seq->n_tokens - n_shared) == KV_FULL) {
        kv_table_truncate(&seq->table, 0);
        if (s->n_running > 0)
            return ADMIT_FULL;
        /* The pool has room for the sequence, but not for a copy of its last block as well. */
        assert(n_known > 0);
        return take_blocks(s, seq, NULL, n_known - 1);
    }
    seq->n_kv = n_shared;
    note_found(s, seq);
    seq_note_kv(seq, false);
    return ADMITTED;
}

static enum admission admit_seq(struct sched *s, struct seq *seq)
{
    struct seq *donor;
    uint32_t n_known;
    bool soon;

    if (s->n_running == s->limits.max_seqs)
        return ADMIT_FULL;
    donor = find_donor(seq->req, &soon);
    if (!donor && soon)
        return ADMIT_LATER;
    n_known = count_known(s, seq);
    if (!donor && (is_on_the_way(s, seq, n_known) || sched_awaits_answer(s, seq)))
        return ADMIT_LATER;
    if (!seq->started) {
        if (seq_start(seq, s->runner->pool, s->tok) < 0)
            return ADMIT_FAILED;
        loop_thread_lock(&s->thread);
        s->n_queued -= !seq->req->started;
        s->n_active++;
        histogram_add(&s->stats.queue_seconds, INF_HISTOGRAM_SECONDS,
                      (double)(clock_usec() - seq->req->submit_usec) * 1e-6);
        loop_thread_unlock(&s->thread);
        seq->req->started = true;
    }
    return take_blocks(s, seq, donor, n_known);
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
        a = admit_seq(s, seq);
        if (a == ADMIT_FULL)
            return;
        if (a == ADMIT_LATER)
            continue;
        sched_dequeue(s, seq);
        if (a == ADMITTED && events_add_progress(&s->events, seq, seq->n_kv) == 0)
            insert_running(s, seq);
        else
            seq_end(seq, INF_FINISH_ERROR, "out of memory");
    }
}

static void preempt_seq(struct sched *s, uint32_t i)
{
    struct seq *seq = s->running[i];

    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(*s->running));
    s->n_running--;
    seq_stop_fetch(seq);
    kv_table_truncate(&seq->table, 0);
    seq->n_kv = seq->n_stored = 0;
    seq_make_names(seq, seq->n_tokens);
    seq->state = SEQ_WAITING;
    sched_enqueue(s, seq);
    sched_ask(s, seq);
}

void sched_preempt_all(struct sched *s)
{
    while (s->n_running > 0)
        preempt_seq(s, s->n_running - 1);
}

void sched_make_room(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        while (seq->state == SEQ_RUNNING && seq->table.n_tokens < seq->n_tokens &&
               kv_table_extend(&seq->table, seq->n_tokens - seq->table.n_tokens) == KV_FULL) {
            assert(s->n_running > 1);
            preempt_seq(s, s->n_running - 1);
        }
    }
}
