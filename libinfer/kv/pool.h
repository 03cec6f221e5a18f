/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Manages paged KV blocks: pools and tables.
 *
 * A pool owns all K/V blocks of one model on one backend. A table is one sequence's ordered list of
 * blocks. Sequences with a common prefix share blocks, so blocks have reference counts. A block may
 * be written only while its count is one and it has no name (kv/prefix.h). A block whose count is
 * zero is free. A free block that has a name is called idle. It keeps its content until the memory
 * is needed: free blocks without a name are used first, then the block that has been idle longest.
 * Only the engine thread calls these functions, so they take no lock.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct kv_pool;

struct kv_table {
    struct kv_pool *pool;
    uint32_t *blocks; /* [cap]; the first n_blocks belong to the table */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* tokens whose K and V are stored, or whose place is reserved */
    uint32_t n_named;  /* the first n_named blocks have names */
    uint32_t epoch;    /* the pool's epoch (kv/block.h) when the table got its first block */
};

/* Positive results of the functions below are not errors, but the caller must act on them. */
enum {
    KV_FULL = 1, /* there are too few free blocks: preempt a sequence or wait, then call again */
};

int kv_pool_new(struct backend *backend, const struct kv_layout *layout, struct kv_pool **ret_pool);
struct kv_pool *kv_pool_free(struct kv_pool *pool);
DEFINE_CLEANUP(struct kv_pool *, kv_pool_free);

struct kv_store *kv_pool_store(struct kv_pool *pool);
uint32_t kv_pool_n_blocks(const struct kv_pool *pool);
/* Returns the number of blocks that tables may take, including idle blocks. */
uint32_t kv_pool_n_free(const struct kv_pool *pool);
/* Returns the number of idle blocks: they are free, but can still be found by name. */
uint32_t kv_pool_n_idle(const struct kv_pool *pool);
uint32_t kv_pool_block_tokens(const struct kv_pool *pool);
const struct kv_layout *kv_pool_layout(const struct kv_pool *pool);
/* Returns the memory of free blocks without a name to the system. The blocks get memory again when
 * they are next used. */
void kv_pool_rest(struct kv_pool *pool);
/* Returns how many blocks at the beginning of the chain @names [n] the pool has. */
uint32_t kv_pool_n_known(const struct kv_pool *pool, const struct kv_name *names, uint32_t n);
/* Returns the block with the name @name, or KV_NO_BLOCK. */
uint32_t kv_pool_find(const struct kv_pool *pool, const struct kv_name *name);
/* Returns the name of @block, or NULL. */
const struct kv_name *kv_pool_name(const struct kv_pool *pool, uint32_t block);
/* Returns the bytes per block, or 0 if the device cannot export blocks. */
uint64_t kv_pool_block_bytes(const struct kv_pool *pool);
/* Copies the bytes of @block to @to. This function may be called only between two steps of the
 * engine. Returns 0, -ENOMEM, or -ENODEV if the device is lost. */
int kv_pool_export(const struct kv_pool *pool, uint32_t block, void *to);
/* Drops the names of all blocks. The engine calls this function when the content of the blocks is
 * lost or may be wrong. Tables that hold blocks at this time can no longer name them. */
void kv_pool_forget(struct kv_pool *pool);

/* Initializes @table with memory for the block numbers of @max_tokens tokens. Extending the table
 * later allocates nothing. Returns 0 or -ENOMEM. */
int kv_table_init(struct kv_table *table, struct kv_pool *pool, uint32_t max_tokens);
void kv_table_done(struct kv_table *table);
/*
 * Makes room in @table for @n_tokens more tokens, in blocks that may be written. Returns 0, or
 * KV_FULL without a change of the table and the pool.
 */
int kv_table_extend(struct kv_table *table, uint32_t n_tokens);
/* Returns the number of blocks that kv_table_extend() would take from the pool. */
uint32_t kv_table_need(const struct kv_table *table, uint32_t n_tokens);
/* Makes the empty table @dst share the blocks of the first @n_tokens tokens of @src. */
void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens);
/* Makes the empty table @table share the blocks of its first @n_tokens tokens. The pool must have
 * these blocks under the names @names. */
void kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens);
/* Gives the first @n blocks, which must be full, the names @names. If another block already has one
 * of these names, that block has the same content: the table then shares it and drops its own
 * block. */
void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n);
/* Returns the address of the bytes of block @i, which must be unnamed and not shared. Returns NULL
 * if the CPU cannot write to the device's blocks; the caller then uses kv_table_import(). */
void *kv_table_bytes(const struct kv_table *table, uint32_t i);
/* Fills block @i of @table with the bytes at @from. This function may be called only between two
 * steps of the engine. Returns 0, or an error as kv_pool_export() does. */
int kv_table_import(struct kv_table *table, uint32_t i, const void *from);
/* Returns whether blocks of @table may get names. This is so if the pool has not dropped all names
 * since the table got its first block. */
bool kv_table_is_current(const struct kv_table *table);
/* Drops all but the first @n_tokens tokens. */
void kv_table_truncate(struct kv_table *table, uint32_t n_tokens);
