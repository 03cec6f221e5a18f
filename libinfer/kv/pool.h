/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paged KV blocks
 *
 * A pool owns all K/V blocks of one model on one backend. A table is one sequence's ordered list of
 * blocks. Sequences with a common prefix share blocks, so blocks are reference counted, and a block
 * may be written only while its count is one and it has no name (kv/prefix.h). A block whose count
 * is zero is free. If it has a name, it is called idle and keeps its content until the memory is
 * needed: free blocks without a name are used first, then the block that has been idle longest.
 * Only the engine thread calls these functions; nothing here takes a lock.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct kv_pool;

struct kv_table {
    struct kv_pool *pool;
    uint32_t *blocks; /* [cap]; the first n_blocks belong to the table */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* positions that are stored or reserved */
    uint32_t n_named;  /* how many of the first blocks have names */
    uint32_t epoch;    /* the pool's epoch when the table got its first block */
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
/* Blocks that tables may take, idle blocks included. */
uint32_t kv_pool_n_free(const struct kv_pool *pool);
/* Idle blocks: free, and still found by name. */
uint32_t kv_pool_n_idle(const struct kv_pool *pool);
uint32_t kv_pool_block_tokens(const struct kv_pool *pool);
const struct kv_layout *kv_pool_layout(const struct kv_pool *pool);
/* Returns the memory of free blocks without a name to the system, until they are used again. */
void kv_pool_rest(struct kv_pool *pool);
/* How many of the first blocks of the chain @names [n] the pool has. */
uint32_t kv_pool_n_known(const struct kv_pool *pool, const struct kv_name *names, uint32_t n);
/* The block with that name, or KV_NO_BLOCK. */
uint32_t kv_pool_find(const struct kv_pool *pool, const struct kv_name *name);
/* The name of a block, or NULL. */
const struct kv_name *kv_pool_name(const struct kv_pool *pool, uint32_t block);
/* Bytes per block; 0: the device cannot export blocks. */
uint64_t kv_pool_block_bytes(const struct kv_pool *pool);
/* Copies the bytes of a block to @to, between steps. Returns 0, -ENOMEM, or -ENODEV: the device is
 * lost. */
int kv_pool_export(const struct kv_pool *pool, uint32_t block, void *to);
/* Drops all names because the content of the blocks is lost or doubtful. Tables that hold blocks
 * now can no longer name them. */
void kv_pool_forget(struct kv_pool *pool);

/* @max_tokens limits the table, so that extending it never allocates. */
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
/* Makes the empty table @dst share the blocks of the first @n_tokens of @src. */
void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens);
/* Makes the empty table @table share the known blocks @names for its first @n_tokens. */
void kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens);
/* Gives the first @n blocks, which must be full, the names @names. If another block already has a
 * name, it has the same content: the table then shares that block and drops its own. */
void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n);
/* The address of the bytes of block @i, which must be unnamed and not shared; NULL if the device
 * takes copies only. */
void *kv_table_bytes(const struct kv_table *table, uint32_t i);
/* Fills block @i with the bytes at @from, between steps. Errors as of kv_pool_export(). */
int kv_table_import(struct kv_table *table, uint32_t i, const void *from);
/* Whether blocks of @table may get names: the pool has not dropped all names since the table's
 * first block. */
bool kv_table_is_current(const struct kv_table *table);
/* Drops all but the first @n_tokens. */
void kv_table_truncate(struct kv_table *table, uint32_t n_tokens);
