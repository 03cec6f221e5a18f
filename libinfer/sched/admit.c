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
 * finishes. "The tier" is tier 2 of the KV cache, which keeps blocks on disk (tier.h).
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

/* Finds a choice of the request @req whose blocks hold the prompt and can be shared. Sets *ret_soon
 * if a choice is still computing the prompt. */
static struct seq *find_donor(struct request *req, bool *ret_soon)
{
    struct seq *donor = NULL;

    *ret_soon = false;
    for (uint32_t i = 0; i < req->n_choices; i++) {
        struct seq *seq = &req->seqs[i];

        if (seq->state != SEQ_RUNNING)
            continue;
        if (seq->n_kv + 1 < req->n_prompt)
            *ret_soon = true;
        else if (!donor && kv_table_can_share(&seq->table, req->n_prompt - 1))
            donor = seq;
    }
    return donor;
}

enum admission {
    ADMITTED,
    ADMIT_LATER, /* this sequence must wait, but others may be admitted before it */
    ADMIT_FULL,  /* the pool is full: no sequence can be admitted */
    ADMIT_FAILED,
};

/* Returns after how many tokens, at most @max_tokens, the sequence can be resumed with blocks that
 * the pool finds by name. */
static uint32_t count_usable(const struct sched *s, const struct seq *seq, uint32_t max_tokens)
{
    uint32_t n;
    const struct kv_name *names = seq_names(seq, &n);

    if (!names || seq_needs_rows(seq))
        return 0;
    return kv_pool_n_usable(s->runner->pool, names, n, max_tokens);
}

/* Returns whether the running sequence @other is about to compute the block with the name
 * names[@i]. */
static bool computes_block(const struct seq *other, const struct kv_name *names, uint32_t i)
{
    return other->n_names > i && kv_table_is_current(&other->table) &&
           kv_name_equal(&other->names[i], &names[i]);
}

/* Returns whether @seq should wait for blocks that a running sequence will soon have computed. @seq
 * can be resumed after @n_usable tokens now, and could be resumed after more tokens with these
 * blocks. */
static bool is_on_the_way(struct sched *s, const struct seq *seq, uint32_t n_usable)
{
    uint32_t n, n_known = 0;
    const struct kv_name *names = seq_names(seq, &n);

    if (!names || seq_needs_rows(seq))
        return false;
    if (s->marks.is_plain)
        n_known = kv_pool_n_known(s->runner->pool, names, n);
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *other = s->running[i];

        if (other->state == SEQ_RUNNING &&
            (s->marks.is_plain ? n_known < n && computes_block(other, names, n_known)
                               : sched_will_reach(s, seq, other, n_usable)))
            return true;
    }
    return false;
}

/* Makes @seq share blocks that hold the beginning of its prompt. They are either the blocks of
 * @donor, another choice that has the prompt, or the blocks of the first @n_usable tokens, which
 * the pool finds by name. The function takes the blocks that hold more tokens. Sets *ret_n_shared
 * to the number of shared tokens. The last token of the prompt is never among them: it must be
 * computed, because its logits are needed. */
static int share_blocks(struct seq *seq, const struct seq *donor, uint32_t n_usable,
                        uint32_t *ret_n_shared)
{
    const uint32_t n_given = donor ? seq->req->n_prompt - 1 : 0;

    *ret_n_shared = MAX(n_usable, n_given);
    if (n_usable > n_given)
        return kv_table_adopt(&seq->table, seq->names, n_usable);
    if (n_given > 0)
        kv_table_share(&seq->table, &donor->table, n_given);
    return 0;
}

/* Marks the blocks that were found by name as reused. Tells the tier which of its blocks are
 * used. */
static void note_found(struct sched *s, struct seq *seq)
{
    const struct kv_layout *layout = kv_pool_layout(s->runner->pool);
    const uint32_t n = seq->table.n_named;

    if (!s->tier || !seq->names || seq->req->n_seen > 0)
        return;
    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const bool is_state = layout->groups[g].rule == STATE_RECURRENT;
        const uint32_t first = is_state ? MAX(n, 1) - 1 : seq->table.begin[g];
        uint32_t n_kept = 0;

        for (uint32_t i = first; i < n; i++) {
            const uint32_t block = kv_pool_find(s->runner->pool, &seq->names[i], g);

            if (block != KV_NO_BLOCK && keep_found(&s->keep, block) && n_kept == i - first)
                n_kept++;
        }
        tier_note_used(s->tier, seq->req->owner, seq->names + first, n_kept, g);
    }
}

static enum admission take_blocks(struct sched *s, struct seq *seq, const struct seq *donor,
                                  uint32_t n_usable)
{
    uint32_t n_shared;
    const int r = share_blocks(seq, donor, n_usable, &n_shared);

    /* Keep one free block for each running sequence, so that the sequence that is admitted now is
     * not preempted at once. */
    if (r == KV_FULL ||
        !kv_table_fits(&seq->table, seq->n_tokens - n_shared, n_shared, s->n_running)) {
        const uint32_t block_tokens = kv_pool_block_tokens(s->runner->pool);

        kv_table_truncate(&seq->table, 0);
        if (s->n_running > 0)
            return ADMIT_FULL;
        /* The pool has room for the sequence, but not for a copy of its last block as well. */
        assert(n_usable > 0);
        n_usable = count_usable(s, seq, (n_usable - 1) / block_tokens * block_tokens);
        return take_blocks(s, seq, NULL, n_usable);
    }
    kv_table_reserve(&seq->table, seq->n_tokens - n_shared);
    kv_table_open(&seq->table, n_shared, 1);
    seq->n_kv = n_shared;
    sched_note_shared(s, seq, n_shared);
    note_found(s, seq);
    seq_note_kv(seq, false);
    return ADMITTED;
}

static enum admission admit_seq(struct sched *s, struct seq *seq)
{
    struct seq *donor;
    uint32_t n_usable;
    bool soon;

    if (s->n_running == s->limits.max_seqs)
        return ADMIT_FULL;
    donor = find_donor(seq->req, &soon);
    if (!donor && soon)
        return ADMIT_LATER;
    n_usable = count_usable(s, seq, seq->n_tokens - 1);
    if (!donor && (is_on_the_way(s, seq, n_usable) || sched_awaits_answer(s, seq)))
        return ADMIT_LATER;
    if (!seq->started) {
        if (seq_start(seq, s->runner->pool, s->tok) < 0)
            return ADMIT_FAILED;
        sched_start_draft(s, seq);
        loop_thread_lock(&s->thread);
        s->n_queued -= !seq->req->started;
        s->n_active++;
        histogram_add(&s->stats.queue_seconds, INF_HISTOGRAM_SECONDS,
                      (double)(clock_usec() - seq->req->submit_usec) * 1e-6);
        loop_thread_unlock(&s->thread);
        seq->req->started = true;
    }
    return take_blocks(s, seq, donor, n_usable);
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

void sched_preempt(struct sched *s, uint32_t i)
{
    struct seq *seq = s->running[i];

    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(*s->running));
    s->n_running--;
    seq_stop_fetch(seq);
    kv_table_truncate(&seq->table, 0);
    drafter_drop(seq);
    seq->draft.n_replay = 0;
    seq->n_kv = seq->n_stored = 0;
    seq_make_names(seq, seq->n_tokens);
    seq->state = SEQ_WAITING;
    sched_enqueue(s, seq);
    sched_ask(s, seq);
}

void sched_preempt_all(struct sched *s)
{
    while (s->n_running > 0)
        sched_preempt(s, s->n_running - 1);
}

/* Gives a running sequence the blocks for its next token. Returns false if there are too few free
 * blocks. */
static bool seq_has_room(struct seq *seq)
{
    struct kv_table *table = &seq->table;

    if (table->n_tokens < seq->n_tokens &&
        kv_table_reserve(table, seq->n_tokens - table->n_tokens) == KV_FULL)
        return false;
    return seq->loading || kv_table_open(table, seq->n_kv, 1) == 1;
}

void sched_make_room(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        while (seq->state == SEQ_RUNNING && !seq_has_room(seq)) {
            assert(s->n_running > 1);
            sched_preempt(s, s->n_running - 1);
        }
    }
}
