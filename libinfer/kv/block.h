/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Internals of a pool that tables use: blocks by number, with their reference counts. */

#include "kv/pool.h"

struct kv_pool {
    struct backend *backend;
    struct kv_layout layout;
    struct kv_store *store;
    uint32_t n_blocks, n_free;
    uint32_t *refs;        /* [n_blocks] reference counts */
    uint32_t *free_blocks; /* [n_blocks], a stack of n_free block numbers */
    struct kv_prefix prefix;
    uint32_t epoch; /* how many times all names were dropped */
};

/* Takes a free block and gives it a count of one. There must be a free block. */
uint32_t kv_block_take(struct kv_pool *pool);
/* Adds one count to a block that has a count or a name. */
void kv_block_ref(struct kv_pool *pool, uint32_t block);
void kv_block_unref(struct kv_pool *pool, uint32_t block);
/* Returns a copy of @block with a count of one, and drops the caller's count of @block. */
uint32_t kv_block_take_copy(struct kv_pool *pool, uint32_t block);
