/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of a pool that tables use: the reference counts of blocks. Blocks are
 * identified by their numbers. */

#include "kv/pool.h"

struct kv_pool {
    struct backend *backend;
    struct kv_layout layout;
    struct kv_store *store;
    uint32_t n_blocks;
    uint32_t *refs; /* [n_blocks] reference counts */
    /* [n_blocks]: for each group, in order of the groups, a stack of n_free block numbers; the
     * stack of a group begins at the number of the group's first block. */
    uint32_t *free_blocks;
    uint32_t n_free[STATE_GROUPS_MAX];
    struct kv_prefix prefix;
    uint32_t epoch; /* number of calls of kv_pool_forget(), which drops all names */
};

static inline enum state_rule kv_pool_rule(const struct kv_pool *pool, uint32_t i_group)
{
    return pool->layout.groups[i_group].rule;
}

/* Takes a free block of group @i_group, sets its reference count to one, and returns its number.
 * The group must have a free block. */
uint32_t kv_block_take(struct kv_pool *pool, uint32_t i_group);
/* Adds one to the reference count of @block. If this count is zero, the block must be idle
 * (kv/pool.h). */
void kv_block_ref(struct kv_pool *pool, uint32_t block);
void kv_block_unref(struct kv_pool *pool, uint32_t block);
/* Copies @block to a free block of the same group with a reference count of one, and returns the
 * number of the copy. Subtracts one from the reference count of @block. */
uint32_t kv_block_take_copy(struct kv_pool *pool, uint32_t block);
