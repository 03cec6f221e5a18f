/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the marks of sequences. A mark is a border between blocks at which computing can be
 * resumed later: the pool keeps everything that is needed for this, and the tier (tier 2 of the KV
 * cache, tier.h) stores it.
 *
 * The FULL groups of the state (graph/state.h) allow resuming at each border, and WINDOW groups at
 * each border whose blocks are not evicted. A RECURRENT group allows it only at borders at which a
 * snapshot, a named copy of its state, was made. So if there is such a group, a step ends exactly
 * at the next mark of the sequence. Three kinds of borders are fixed marks: the last border of the
 * prompt; each multiple of `every` blocks (struct mark_rules); and the border up to which another
 * sequence has the same blocks, so that a third sequence with this beginning finds a snapshot. A
 * sequence that generates makes a snapshot at each border, and drops its snapshot at the border
 * before, unless that border is a fixed mark. So there is a recent snapshot when the sequence is
 * preempted, when it ends, and when the next turn of a conversation continues it.
 */
#include "sched/sched.h"

static uint32_t block_tokens(const struct sched *s)
{
    return kv_pool_block_tokens(s->runner->pool);
}

/* Returns the last border at which a sequence of @n_tokens tokens can be resumed. The last token is
 * always computed, because its logits are needed. */
static uint32_t last_border(const struct sched *s, uint32_t n_tokens)
{
    return (n_tokens - 1) / block_tokens(s);
}

static bool is_fixed(const struct sched *s, const struct seq *seq, uint32_t border)
{
    return border > 0 &&
           (border % s->marks.every == 0 || border == last_border(s, seq->req->n_prompt) ||
            border == seq->mark_shared);
}

uint32_t sched_max_rows(const struct sched *s, const struct seq *seq)
{
    const uint32_t now = seq->n_kv / block_tokens(s);
    const uint32_t borders[] = {last_border(s, seq->req->n_prompt), last_border(s, seq->n_tokens),
                                seq->mark_shared};
    uint32_t next = (now / s->marks.every + 1) * s->marks.every;

    if (!s->marks.has_snapshots || !seq->names)
        return 0;
    for (unsigned i = 0; i < ARRAY_SIZE(borders); i++)
        if (borders[i] > now)
            next = MIN(next, borders[i]);
    return next * block_tokens(s) - seq->n_kv;
}

void sched_keep_mark(struct sched *s, struct seq *seq, uint32_t border, bool kept)
{
    struct kv_pool *pool = s->runner->pool;
    const struct kv_layout *layout = kv_pool_layout(pool);

    for (uint32_t g = 0; s->tier && g < layout->n_groups; g++) {
        uint32_t i = border - 1;

        if (layout->groups[g].rule == STATE_FULL)
            continue;
        if (layout->groups[g].rule == STATE_WINDOW)
            i = kv_pool_first_seen(layout, g, border * block_tokens(s));
        for (; i < kv_pool_last_seen(layout, g, border); i++) {
            const uint32_t block = kv_pool_find(pool, &seq->names[i], g);

            if (block != KV_NO_BLOCK)
                keep_named(&s->keep, block, seq->names, i, seq->req->owner, kept);
        }
    }
}

/* Makes snapshots at @border. Drops the sequence's earlier snapshots if their border is not a fixed
 * mark. */
static bool make_snapshot(struct sched *s, struct seq *seq, uint32_t border, bool fixed)
{
    const uint32_t last = seq->mark_last;

    if (last > 0 && last != border && !is_fixed(s, seq, last))
        kv_pool_drop_snapshot(s->runner->pool, &seq->names[last - 1]);
    seq->mark_last = fixed ? 0 : border;
    return kv_table_snapshot(&seq->table, seq->names, border);
}

void sched_note_marks(struct sched *s, struct seq *seq, uint32_t pos)
{
    const uint32_t now = seq->n_kv / block_tokens(s);
    const bool at_border = seq->n_kv % block_tokens(s) == 0;

    if (s->marks.is_plain || !seq->names || !kv_table_is_current(&seq->table))
        return;
    for (uint32_t border = pos / block_tokens(s) + 1; border <= now; border++) {
        const bool fixed = is_fixed(s, seq, border);
        const bool wanted = fixed || border == last_border(s, seq->n_tokens) ||
                            border * block_tokens(s) >= seq->req->n_prompt;

        if (s->marks.has_snapshots &&
            (!wanted || border < now || !at_border || !make_snapshot(s, seq, border, fixed)))
            continue;
        if (fixed)
            sched_keep_mark(s, seq, border, false);
    }
}

void sched_end_marks(struct sched *s, struct seq *seq)
{
    const uint32_t border = seq->n_kv / block_tokens(s);

    if (!s->marks.is_plain && s->tier && seq->names && border > 0 && border <= seq->table.n_named &&
        kv_table_is_current(&seq->table))
        sched_keep_mark(s, seq, border, false);
}

/* Returns how many blocks at the beginning of two chains have the same names. Each name depends on
 * all names before it, so bisection finds the number. */
static uint32_t common_blocks(const struct kv_name *a, const struct kv_name *b, uint32_t n)
{
    uint32_t first = 0;

    while (first < n) {
        const uint32_t middle = first + (n - first) / 2;

        if (kv_name_equal(&a[middle], &b[middle]))
            first = middle + 1;
        else
            n = middle;
    }
    return first;
}

/* Returns whether @other will make a snapshot at a border above @least, up to @most. If @other has
 * planned none, makes @most a mark of @other. Returns false if @other has already passed these
 * borders. */
static bool will_snapshot(struct sched *s, struct seq *other, uint32_t least, uint32_t most)
{
    const uint32_t from = MAX(least, other->n_kv / block_tokens(s));
    const uint32_t borders[] = {last_border(s, other->req->n_prompt), other->mark_shared,
                                most / s->marks.every * s->marks.every};

    for (unsigned i = 0; i < ARRAY_SIZE(borders); i++)
        if (borders[i] > from && borders[i] <= most)
            return true;
    if (most > from)
        other->mark_shared = most;
    return most > from;
}

bool sched_will_reach(struct sched *s, const struct seq *seq, struct seq *other, uint32_t n_usable)
{
    uint32_t n, common;
    const struct kv_name *names = seq_names(seq, &n);
    const uint32_t least = n_usable / block_tokens(s);

    if (!names || !other->names || !kv_table_is_current(&other->table))
        return false;
    common = common_blocks(names, other->names, MIN(n, other->n_names));
    common = MIN(common, last_border(s, seq->n_tokens));
    if (s->marks.has_snapshots)
        return will_snapshot(s, other, least, common);
    return common > MAX(least, other->n_kv / block_tokens(s));
}

void sched_note_shared(struct sched *s, struct seq *seq, uint32_t n_usable)
{
    uint32_t n, known;
    const struct kv_name *names = seq_names(seq, &n);

    seq->mark_shared = 0;
    if (!s->marks.has_snapshots || !names)
        return;
    known = kv_pool_n_known(s->runner->pool, names, MIN(n, last_border(s, seq->n_tokens)));
    if (s->marks.has_chain && known > n_usable / block_tokens(s))
        seq->mark_shared = known;
}
