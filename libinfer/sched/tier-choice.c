/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the blocks to copy to tier 2.
 *
 * Each class of blocks (tier-choice.h) has a queue. The queue is a list that is linked through the
 * entries of its blocks.
 */
#include "sched/tier-choice.h"

#include <errno.h>
#include <string.h>

/* The number of blocks at the beginning of a chain that count as the beginning of a prompt. */
#define HEAD_BLOCKS 16

enum keep_class {
    CLASS_PROVEN,
    CLASS_HEAD,
    CLASS_REST,
};

int keep_init(struct keep *k, struct kv_pool *pool)
{
    *k = (struct keep){.pool = pool, .entries = NEW(struct keep_entry, kv_pool_n_blocks(pool))};
    if (!k->entries)
        return -ENOMEM;
    for (unsigned i = 0; i < KEEP_CLASSES; i++)
        k->heads[i] = k->tails[i] = KV_NO_BLOCK;
    return 0;
}

void keep_done(struct keep *k)
{
    for (uint32_t i = 0; k->entries && i < kv_pool_n_blocks(k->pool); i++)
        tier_owner_unref(k->entries[i].owner);
    free(k->entries);
    *k = (struct keep){0};
}

static void keep_push(struct keep *k, uint32_t block, enum keep_class class)
{
    struct keep_entry *e = &k->entries[block];

    e->state = KEEP_QUEUED;
    e->class = (uint8_t) class;
    e->prev = k->tails[class];
    e->next = KV_NO_BLOCK;
    if (e->prev != KV_NO_BLOCK)
        k->entries[e->prev].next = block;
    else
        k->heads[class] = block;
    k->tails[class] = block;
    k->n_queued++;
}

static void keep_pull(struct keep *k, uint32_t block)
{
    struct keep_entry *e = &k->entries[block];

    if (e->prev != KV_NO_BLOCK)
        k->entries[e->prev].next = e->next;
    else
        k->heads[e->class] = e->next;
    if (e->next != KV_NO_BLOCK)
        k->entries[e->next].prev = e->prev;
    else
        k->tails[e->class] = e->prev;
    e->state = KEEP_NONE;
    k->n_queued--;
}

static enum keep_class class_of(const struct keep_entry *e)
{
    if (e->owner->session)
        return CLASS_PROVEN;
    return e->index < HEAD_BLOCKS ? CLASS_HEAD : CLASS_REST;
}

/* Returns whether the entry of @block was made for the name that the block has in the pool now. */
static bool is_current(const struct keep *k, uint32_t block)
{
    const struct kv_name *name = kv_pool_name(k->pool, block);

    return name && kv_name_equal(name, &k->entries[block].name);
}

/* Makes the entry of a block that has got the name names[@i]. */
static struct keep_entry make_entry(const struct keep *k, uint32_t block,
                                    const struct kv_name *names, uint32_t i)
{
    const struct kv_layout *layout = kv_pool_layout(k->pool);
    const uint32_t main = kv_pool_main_group(k->pool);
    struct keep_entry e = {.name = names[i]};

    if (layout->groups[main].rule != STATE_FULL)
        return e;
    e.index = i + (kv_layout_group(layout, block) != main);
    if (e.index > 0)
        e.parent = names[e.index - 1];
    return e;
}

void keep_named(struct keep *k, uint32_t block, const struct kv_name *names, uint32_t i,
                struct tier_owner *owner, bool kept)
{
    struct keep_entry *e = &k->entries[block];

    if (e->owner && kv_name_equal(&e->name, &names[i])) {
        keep_found(k, block);
    } else {
        if (e->state == KEEP_QUEUED)
            keep_pull(k, block);
        tier_owner_unref(e->owner);
        *e = make_entry(k, block, names, i);
        e->owner = tier_owner_ref(owner);
    }
    if (kept && e->state == KEEP_QUEUED)
        keep_pull(k, block);
    if (kept)
        e->state = KEEP_KEPT;
    else if (e->state == KEEP_NONE)
        keep_push(k, block, class_of(e));
}

bool keep_found(struct keep *k, uint32_t block)
{
    struct keep_entry *e = &k->entries[block];

    if (e->state == KEEP_QUEUED && e->class != CLASS_PROVEN) {
        keep_pull(k, block);
        keep_push(k, block, CLASS_PROVEN);
    }
    return e->state == KEEP_KEPT;
}

/* Returns the block before @block in its chain if that block is queued too, because it must be
 * copied first; otherwise returns KV_NO_BLOCK. */
static uint32_t waiting_parent(const struct keep *k, uint32_t block)
{
    const struct keep_entry *e = &k->entries[block];
    uint32_t parent;

    if (e->index == 0)
        return KV_NO_BLOCK;
    parent = kv_pool_find(k->pool, &e->parent, kv_pool_main_group(k->pool));
    if (parent == KV_NO_BLOCK || k->entries[parent].state != KEEP_QUEUED || !is_current(k, parent))
        return KV_NO_BLOCK;
    return parent;
}

/* Takes @block from its queue, or the earliest block of its chain that is queued. Returns the block
 * that was taken. */
static uint32_t take_entry(struct keep *k, uint32_t block)
{
    uint32_t parent;

    while ((parent = waiting_parent(k, block)) != KV_NO_BLOCK)
        block = parent;
    keep_pull(k, block);
    k->entries[block].state = KEEP_GOING;
    return block;
}

/* Returns whether the tier has the parent of @block (keep_named()), or can still get it. A block of
 * a chain is evicted only after the blocks that continue it. However, it can be evicted before
 * window blocks and snapshots whose parent it is, and then the tier may never get it. */
static bool may_follow(const struct keep *k, uint32_t block)
{
    const struct keep_entry *e = &k->entries[block];
    const uint32_t main = kv_pool_main_group(k->pool);
    uint32_t parent;

    if (e->index == 0 || kv_layout_group(kv_pool_layout(k->pool), block) == main)
        return true;
    parent = kv_pool_find(k->pool, &e->parent, main);
    return parent != KV_NO_BLOCK && is_current(k, parent) && k->entries[parent].state != KEEP_NONE;
}

uint32_t keep_take(struct keep *k)
{
    for (unsigned class = 0; class < KEEP_CLASSES; class ++)
        while (k->heads[class] != KV_NO_BLOCK) {
            const uint32_t block = k->heads[class];

            if (is_current(k, block) && may_follow(k, block))
                return take_entry(k, block);
            keep_pull(k, block);
        }
    return KV_NO_BLOCK;
}

void keep_put_back(struct keep *k, uint32_t block)
{
    struct keep_entry *e = &k->entries[block];
    const uint32_t next = k->heads[e->class];

    assert(e->state == KEEP_GOING);
    e->state = KEEP_QUEUED;
    e->prev = KV_NO_BLOCK;
    e->next = next;
    if (next != KV_NO_BLOCK)
        k->entries[next].prev = block;
    else
        k->tails[e->class] = block;
    k->heads[e->class] = block;
    k->n_queued++;
}

void keep_failed(struct keep *k, uint32_t block)
{
    assert(k->entries[block].state == KEEP_GOING);
    k->entries[block].state = KEEP_NONE;
}

void keep_over(struct keep *k, const struct tier_kept *copy)
{
    struct keep_entry *e = &k->entries[copy->block];

    if (e->state != KEEP_GOING || !kv_name_equal(&e->name, &copy->name))
        return;
    e->state = copy->taken ? KEEP_KEPT : KEEP_NONE;
    if (!copy->taken && is_current(k, copy->block))
        keep_push(k, copy->block, class_of(e));
}
