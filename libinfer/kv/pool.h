/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paged KV blocks
 *
 * A pool owns all K/V blocks of one model on one backend. A table is one sequence's ordered list
 * of blocks. Sequences with a common prefix share blocks, so blocks are reference counted, and a
 * block may be written only while its count is one and it has no name (kv/prefix.h).
 * A block that nobody counts on any more is free. With a name it keeps what it holds until it is
 * needed: blocks without come first, then the one that rested longest.
 * Only the engine thread calls these functions; nothing here takes a lock.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct kv_pool;

struct kv_table {
    struct kv_pool *pool;
    uint32_t *blocks; /* [cap], the first n_blocks are ours */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* positions that are stored or promised */
    uint32_t n_named;  /* of the first blocks */
    uint32_t epoch;    /* of the pool when the first block came */
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
/* Blocks that tables may take: what some of them hold may still be found by name. */
uint32_t kv_pool_n_free(const struct kv_pool *pool);
/* Of these, the ones with a name. */
uint32_t kv_pool_n_idle(const struct kv_pool *pool);
uint32_t kv_pool_block_tokens(const struct kv_pool *pool);
const struct kv_layout *kv_pool_layout(const struct kv_pool *pool);
/* Gives back the memory of free blocks without a name, until they are used again. */
void kv_pool_rest(struct kv_pool *pool);
/* How many blocks of the chain @names [n] are there. */
uint32_t kv_pool_n_known(const struct kv_pool *pool, const struct kv_name *names, uint32_t n);
/* The block of that name, or KV_NO_BLOCK. */
uint32_t kv_pool_find(const struct kv_pool *pool, const struct kv_name *name);
/* The name of a block, or NULL. */
const struct kv_name *kv_pool_name(const struct kv_pool *pool, uint32_t block);
/* The bytes of a block; 0: they do not leave the device. */
uint64_t kv_pool_block_bytes(const struct kv_pool *pool);
/* Between steps: copies those of a block to @to. 0, -ENOMEM; -ENODEV: the device is lost. */
int kv_pool_export(const struct kv_pool *pool, uint32_t block, void *to);
/* What the blocks hold is gone or doubtful: no block has a name any more, and the blocks of tables
 * that have some get none. */
void kv_pool_forget(struct kv_pool *pool);

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
/* Makes the empty table @table share the first @n_tokens of known blocks named @names. */
void kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens);
/* The first @n blocks are full and have the names @names. Where another block has one already,
 * which holds the same, the table shares that and drops its own. */
void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n);
/* Where the bytes of block @i lie, which is the table's alone and has no name; NULL: on a device
 * that takes copies. */
void *kv_table_bytes(const struct kv_table *table, uint32_t i);
/* Between steps: fills it with the bytes @from. As kv_pool_export(). */
int kv_table_import(struct kv_table *table, uint32_t i, const void *from);
/* Whether blocks of @table may be named. */
bool kv_table_is_current(const struct kv_table *table);
/* Forgets all but the first @n_tokens. */
void kv_table_truncate(struct kv_table *table, uint32_t n_tokens);
