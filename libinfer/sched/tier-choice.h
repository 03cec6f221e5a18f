/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which blocks of the pool to copy to the tier, and in what order
 *
 * Blocks that were reused and blocks of named conversations come first, then beginnings of prompts,
 * then the rest. Within a group the order is that of naming, so that the blocks of a chain follow
 * each other. A block that has lost its name meanwhile is skipped. Memory is allocated only at
 * creation.
 */

#include "kv/pool.h"
#include "sched/tier.h"

enum keep_state {
    KEEP_NONE,
    KEEP_QUEUED,
    KEEP_GOING, /* a copy is being stored */
    KEEP_KEPT,
};

#define KEEP_CLASSES 3

struct keep_entry {
    struct kv_name name, parent;
    struct tier_owner *owner;
    uint32_t index;
    uint32_t prev, next; /* links in the queue of its class */
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
/* Records that @block got the name names[@index] and belongs to @owner. @kept: the tier has it. If
 * the block already had that name, it counts as reused. */
void keep_named(struct keep *k, uint32_t block, const struct kv_name *names, uint32_t index,
                struct tier_owner *owner, bool kept);
/* Records that @block was found by its name. Returns whether the tier has it. */
bool keep_found(struct keep *k, uint32_t block);
/* Returns the next block to copy, or KV_NO_BLOCK. Its state becomes KEEP_GOING. */
uint32_t keep_take(struct keep *k);
/* Records that no copy was made; the block is not tried again. */
void keep_failed(struct keep *k, uint32_t block);
/* Records the result of storing a copy. */
void keep_over(struct keep *k, const struct tier_kept *copy);
