/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paged KV blocks
 *
 * A pool owns all K/V blocks of one model on one backend. A table is one sequence's ordered list
 * of blocks. Sequences with a common prefix share blocks, so blocks are reference counted, and a
 * block may be written only while its count is one.
 * Only the engine thread calls these functions; nothing here takes a lock.
 */

#include "backend/backend.h"
#include "core/macros.h"

struct kv_pool;

struct kv_table {
    struct kv_pool *pool;
    uint32_t *blocks; /* [cap], the first n_blocks are ours */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* positions that are stored or promised */
};

/* Positive results: not errors, and the caller must act on them. */
enum {
    KV_FULL = 1, /* too few free blocks: preempt or wait, then call again */
};

int kv_pool_new(struct backend *backend, const struct kv_layout *layout, uint32_t n_blocks,
                struct kv_pool **ret_pool);
struct kv_pool *kv_pool_free(struct kv_pool *pool);
DEFINE_CLEANUP(struct kv_pool *, kv_pool_free);

struct kv_store *kv_pool_store(struct kv_pool *pool);
uint32_t kv_pool_n_blocks(const struct kv_pool *pool);
uint32_t kv_pool_n_free(const struct kv_pool *pool);
uint32_t kv_pool_block_tokens(const struct kv_pool *pool);
/* Gives back the memory of free blocks, until they are used again. */
void kv_pool_rest(struct kv_pool *pool);

/* @max_tokens bounds the table, so that extending it never allocates. */
int kv_table_init(struct kv_table *table, struct kv_pool *pool, uint32_t max_tokens);
void kv_table_done(struct kv_table *table);
/*
 * Makes @table long enough for @n_tokens more tokens, all writable.
 * All or nothing: unless it returns 0, the table and the pool are as they were.
 * Returns 0 or KV_FULL.
 */
int kv_table_extend(struct kv_table *table, uint32_t n_tokens);
/* Blocks that kv_table_extend() would take from the pool. */
uint32_t kv_table_need(const struct kv_table *table, uint32_t n_tokens);
/* Makes the empty table @dst share the first @n_tokens of @src. */
void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens);
/* Forgets all but the first @n_tokens. */
void kv_table_truncate(struct kv_table *table, uint32_t n_tokens);
