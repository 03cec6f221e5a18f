/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses which blocks of the pool to copy to the tier (tier 2 of the KV cache, tier.h), and in
 * what order.
 *
 * There are three classes of blocks. Blocks that were reused or whose owner has a session are
 * copied first, then blocks at the beginning of prompts, then all other blocks. Within a class,
 * blocks are copied in the order in which they were named, so that the blocks of a chain follow
 * each other. A chain consists of the named blocks of a text, from its beginning on (kv/prefix.h).
 * A block that has lost its name in the meantime is skipped. Only keep_init() allocates memory.
 */

#include "kv/pool.h"
#include "sched/tier.h"

enum keep_state {
    KEEP_NONE,
    KEEP_QUEUED,
    KEEP_GOING, /* a copy of the block is being stored */
    KEEP_KEPT,
};

#define KEEP_CLASSES 3

struct keep_entry {
    struct kv_name name, parent;
    struct tier_owner *owner;
    uint32_t index;      /* number of blocks before it in its chain; 0: the block has no parent */
    uint32_t prev, next; /* links in the queue of the entry's class */
    uint8_t state, class;
};

struct keep {
    struct kv_pool *pool;
    struct keep_entry *entries; /* [blocks of the pool] */
    uint32_t heads[KEEP_CLASSES], tails[KEEP_CLASSES];
    uint32_t n_queued;
};

int keep_init(struct keep *k, struct kv_pool *pool);
void keep_done(struct keep *k);
/* Records that @block has the name names[@i] and belongs to @owner. @kept: the tier already has the
 * block. If the entry of the block already has this name, the block counts as reused. The parent of
 * a block of the pool's main group is the block before it in the chain; the parent of another block
 * is the block of the main group with the same name, if that group is FULL. */
void keep_named(struct keep *k, uint32_t block, const struct kv_name *names, uint32_t i,
                struct tier_owner *owner, bool kept);
/* Records that a request found @block by its name, so that it counts as reused. Returns whether the
 * tier has the block. */
bool keep_found(struct keep *k, uint32_t block);
/* Returns the next block to copy, or KV_NO_BLOCK. Its state becomes KEEP_GOING. */
uint32_t keep_take(struct keep *k);
/* Puts a block that keep_take() has returned back into its queue, as the first block. */
void keep_put_back(struct keep *k, uint32_t block);
/* Records that @block could not be copied; it is not tried again. */
void keep_failed(struct keep *k, uint32_t block);
/* Records whether the tier accepted @copy. */
void keep_over(struct keep *k, const struct tier_kept *copy);
