/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which blocks of the pool the tier shall get, and in what order
 *
 * Those that were found again and those of conversations with a name come first, then beginnings of
 * prompts, then the rest; in each group the order is that of naming, so that the blocks of a chain
 * follow each other. A block that lost its name meanwhile is passed over. Allocates nothing after
 * it was made.
 */

#include "kv/pool.h"
#include "sched/tier.h"

enum keep_state {
    KEEP_NONE,
    KEEP_QUEUED,
    KEEP_GOING, /* a copy is on its way */
    KEEP_KEPT,
};

#define KEEP_CLASSES 3

struct keep_entry {
    struct kv_name name, parent;
    struct tier_owner *owner;
    uint32_t index;
    uint32_t prev, next; /* in the queue of its class */
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
/* @block got the name names[@index], of whom @owner is; @kept: the tier has it. Where it had that
 * name already, it was found again. */
void keep_named(struct keep *k, uint32_t block, const struct kv_name *names, uint32_t index,
                struct tier_owner *owner, bool kept);
/* @block was found by its name. Whether the tier has it. */
bool keep_found(struct keep *k, uint32_t block);
/* The block that shall go next, or KV_NO_BLOCK; afterwards it is KEEP_GOING. */
uint32_t keep_take(struct keep *k);
/* No copy of it was made; it is not tried again. */
void keep_failed(struct keep *k, uint32_t block);
/* What became of a copy. */
void keep_over(struct keep *k, const struct tier_kept *copy);
