/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies blocks for the tier (tier 2 of the KV cache, tier.h).
 *
 * The engine thread copies blocks between steps, when no step writes to them, so copying needs no
 * lock and no reference to a block. While the engine computes, storing takes only a small share of
 * the time; the work of the engine thread, of the tier's thread and of the tier itself counts
 * toward this share. While the engine is idle, all blocks that are not stored yet are copied.
 */
#include "core/clock.h"
#include "sched/sched.h"

#define SHARE           0.02 /* share of the time that storing takes while steps run */
#define MAX_CREDIT_USEC 20000.0
/* The tier's thread computes checksums, seals the memfd and sends it. The tier then writes the
 * blocks, which costs about the same time again. */
#define BOTH_ENDS       2.0
#define FLUSH_POLL_USEC 1000

static void take_results(struct sched *s)
{
    struct tier_batch *b;

    while ((b = tier_over_batch(s->tier))) {
        for (uint32_t i = 0; i < b->n_blocks; i++)
            keep_over(&s->keep, &b->blocks[i]);
        tier_batch_free(b);
    }
}

static void put_batch(struct sched *s)
{
    if (s->spill.batch)
        tier_put_batch(s->tier, STEAL(s->spill.batch));
}

/* Ensures that there is a batch to fill. Returns false if no batch is available now. */
static bool have_batch(struct sched *s)
{
    if (!s->spill.batch)
        s->spill.batch = tier_take_batch(s->tier);
    return s->spill.batch;
}

/* Copies a block to the batch. A block that the device cannot export, because the device was lost,
 * is skipped. */
static void copy_block(struct sched *s, uint32_t block)
{
    const struct keep_entry *e = &s->keep.entries[block];
    const uint64_t size = kv_pool_block_bytes(s->runner->pool, block);
    struct tier_batch *b = s->spill.batch;

    if (kv_pool_export(s->runner->pool, block, b->data + b->used_bytes) < 0) {
        keep_failed(&s->keep, block);
        return;
    }
    b->blocks[b->n_blocks++] = (struct tier_kept){
        .block = block,
        .i_group = kv_layout_group(kv_pool_layout(s->runner->pool), block),
        .i_parent = kv_pool_main_group(s->runner->pool),
        .offset = b->used_bytes,
        .size = size,
        .name = e->name,
        .parent = e->parent,
        .index = e->index,
        .owner = tier_owner_ref(e->owner),
    };
    b->used_bytes += size;
    if (b->n_blocks == b->max_blocks)
        put_batch(s);
}

/* Ensures that there is a batch with room for @block. Returns false if no batch is available
 * now. */
static bool have_room(struct sched *s, uint32_t block)
{
    const struct tier_batch *b = s->spill.batch;

    if (b->map_bytes - b->used_bytes >= kv_pool_block_bytes(s->runner->pool, block))
        return true;
    put_batch(s);
    return have_batch(s);
}

/* Copies one block. Returns false if no block is left to copy, or if there is no batch for the next
 * block now. */
static bool spill_block(struct sched *s)
{
    const uint64_t begin = clock_usec();
    const uint32_t block = keep_take(&s->keep);

    if (block == KV_NO_BLOCK)
        return false;
    if (!have_room(s, block)) {
        keep_put_back(&s->keep, block);
        return false;
    }
    copy_block(s, block);
    s->spill.credit_usec -= (double)(clock_usec() - begin) + BOTH_ENDS * tier_keep_usec(s->tier);
    return true;
}

void sched_spill_busy(struct sched *s)
{
    if (!s->tier)
        return;
    take_results(s);
    s->spill.idle_usec = clock_usec() + s->spill.grace_usec;
    s->spill.credit_usec =
        MIN(s->spill.credit_usec + SHARE * (double)s->step.usec, MAX_CREDIT_USEC);
    while (s->keep.n_queued > 0 && s->spill.credit_usec > 0 && tier_may_keep(s->tier) &&
           have_batch(s))
        if (!spill_block(s))
            break;
}

enum spilled sched_spill_idle(struct sched *s)
{
    if (!s->tier)
        return SPILLED_ALL;
    take_results(s);
    if (s->keep.n_queued > 0 && clock_usec() < s->spill.idle_usec)
        return SPILL_LATER;
    if (s->keep.n_queued > 0 && tier_may_keep(s->tier)) {
        if (!have_batch(s))
            return SPILL_LATER;
        if (spill_block(s))
            return SPILL_MORE;
    }
    if (s->spill.batch && s->spill.batch->n_blocks > 0)
        put_batch(s);
    if (tier_is_keeping(s->tier))
        return SPILL_LATER;
    return s->keep.n_queued > 0 && !tier_is_down(s->tier) ? SPILL_LATER : SPILLED_ALL;
}

void sched_flush(struct sched *s, uint32_t msec)
{
    const uint64_t end = clock_usec() + (uint64_t)msec * 1000;
    enum spilled r;

    s->spill.idle_usec = 0;
    while (s->tier && clock_usec() < end && (r = sched_spill_idle(s)) != SPILLED_ALL) {
        if (r == SPILL_MORE)
            continue;
        if (!tier_may_keep(s->tier) && !tier_is_keeping(s->tier))
            return;
        if (!s->thread.is_started)
            tier_work(s->tier);
        else
            usleep(FLUSH_POLL_USEC);
    }
}
