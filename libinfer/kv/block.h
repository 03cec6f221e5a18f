/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a pool, for tables: blocks by number, and who counts on them. */

#include "kv/pool.h"

struct kv_pool {
    struct backend *backend;
    struct kv_layout layout;
    struct kv_store *store;
    uint32_t n_blocks, n_free;
    uint32_t *refs;        /* [n_blocks] */
    uint32_t *free_blocks; /* [n_blocks], a stack of n_free */
    struct kv_prefix prefix;
    uint32_t epoch; /* how often all names were forgotten */
};

/* A free block with a count of one; there must be one. */
uint32_t kv_block_take(struct kv_pool *pool);
/* One more count of a block that has some, or a name. */
void kv_block_ref(struct kv_pool *pool, uint32_t block);
void kv_block_unref(struct kv_pool *pool, uint32_t block);
/* A copy of @block with a count of one; drops the caller's count of @block. */
uint32_t kv_block_take_copy(struct kv_pool *pool, uint32_t block);
