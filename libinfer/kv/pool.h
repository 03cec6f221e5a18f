/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Manages paged KV blocks: pools and tables.
 *
 * A pool owns all blocks of one model on one backend. The blocks are divided into the groups of the
 * model's state (graph/state.h), and numbered through all groups. A table is one sequence's ordered
 * list of blocks for each group. Sequences with a common prefix share blocks, so blocks have
 * reference counts. A block may be written only while its count is one and it has no name
 * (kv/prefix.h). A block whose count is zero is free. A free block that has a name is called idle.
 * An idle block keeps its content until the memory is needed: a group that needs a block first uses
 * its free blocks without a name, then its block that has been idle for the longest time.
 *
 * A table holds:
 * - of a FULL group, the blocks of all tokens;
 * - of a WINDOW group, the blocks of those tokens that a later row can see. The table gives back
 *   the blocks before them while the sequence runs, and takes the blocks of a step just before the
 *   step;
 * - of a RECURRENT group, one block, the state after the last computed token. It never has a name
 *   and is never shared. A copy of it that has a name is called a snapshot; it always belongs to a
 *   border between two blocks of tokens.
 * Computing can be resumed at a position if the pool has everything that a table holds at this
 * position.
 *
 * Only the engine thread calls these functions, so they take no lock.
 */

#include "backend/backend.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct kv_pool;

struct kv_table {
    struct kv_pool *pool;
    /* For each group, numbers of blocks. FULL and WINDOW: [cap], and the table holds the blocks
     * begin … end - 1; the others are KV_NO_BLOCK in a WINDOW group, and undefined in a FULL group.
     * RECURRENT: [1], and the table holds it if `end` is 1. */
    uint32_t *blocks[STATE_GROUPS_MAX];
    uint32_t begin[STATE_GROUPS_MAX], end[STATE_GROUPS_MAX];
    uint32_t saved[STATE_GROUPS_MAX]; /* for each RECURRENT group a copy of the state, or a block
                                         for drafted rows; KV_NO_BLOCK: none */
    uint32_t n_blocks, cap;           /* n_blocks: number of blocks that n_tokens need */
    uint32_t n_tokens;                /* tokens whose state is stored, or whose place is reserved */
    uint32_t n_named;                 /* the first n_named blocks have names */
    uint32_t epoch; /* the pool's epoch (kv/block.h) when the table got its first block */
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
/* Like the functions above, for one group. */
uint32_t kv_pool_group_free(const struct kv_pool *pool, uint32_t i_group);
uint32_t kv_pool_group_idle(const struct kv_pool *pool, uint32_t i_group);
uint32_t kv_pool_block_tokens(const struct kv_pool *pool);
const struct kv_layout *kv_pool_layout(const struct kv_pool *pool);
/* Returns the group whose blocks stand for the whole state of a sequence in counts and in the tier
 * (infer/tier.h): the first FULL group, or group 0 if there is none. */
uint32_t kv_pool_main_group(const struct kv_pool *pool);
/* Returns whether a group of the pool has the rule @rule. */
bool kv_pool_has_rule(const struct kv_pool *pool, enum state_rule rule);
/* Gives back to the system the memory of free blocks without a name. The blocks get memory again
 * when they are next used. */
void kv_pool_rest(struct kv_pool *pool);
/* Returns the block of group @i_group with the name @name, or KV_NO_BLOCK. */
uint32_t kv_pool_find(const struct kv_pool *pool, const struct kv_name *name, uint32_t i_group);
/* Returns the name of @block, or NULL. */
const struct kv_name *kv_pool_name(const struct kv_pool *pool, uint32_t block);
/* Returns the bytes of @block, or of a block of group @i_group; 0: the device cannot export
 * blocks. */
uint64_t kv_pool_block_bytes(const struct kv_pool *pool, uint32_t block);
uint64_t kv_pool_group_bytes(const struct kv_pool *pool, uint32_t i_group);
/* Returns whether the CPU can write to the device's blocks. */
bool kv_pool_is_writable(const struct kv_pool *pool);
/* Copies the bytes of @block to @to. This function may be called only between two steps of the
 * engine. Returns 0, -ENOMEM, or -ENODEV if the device is lost. */
int kv_pool_export(const struct kv_pool *pool, uint32_t block, void *to);
/* Drops the names of all blocks. The engine calls this function when the content of the blocks is
 * lost or may be wrong. Tables that hold blocks at this time can no longer name them. */
void kv_pool_forget(struct kv_pool *pool);

/* mark.c: where computing can be resumed */

/* Returns how many of the first blocks of the chain @names [n] are in all FULL groups of the pool.
 * Returns @n if there is no FULL group. */
uint32_t kv_pool_n_known(const struct kv_pool *pool, const struct kv_name *names, uint32_t n);
/* Returns the highest number of tokens, at most @max_tokens, after which computing can be resumed
 * with blocks that the pool has. @names [n]: the names of the blocks of these tokens. */
uint32_t kv_pool_n_usable(const struct kv_pool *pool, const struct kv_name *names, uint32_t n,
                          uint32_t max_tokens);
/* Returns the number of the first block of tokens that a row can see if it follows the first
 * @n_tokens tokens of a sequence. 0 for groups that are not WINDOW. */
uint32_t kv_pool_first_seen(const struct kv_layout *layout, uint32_t i_group, uint32_t n_tokens);
/* Returns the number after the last block of a group that a row can see if it follows the first
 * @n_blocks blocks: @n_blocks, or at most 1 for a group that keeps only the first block. */
uint32_t kv_pool_last_seen(const struct kv_layout *layout, uint32_t i_group, uint32_t n_blocks);
/* Makes snapshots of the table's state, which must be the state after the first @n_blocks blocks of
 * the chain @names. Returns whether the pool has such snapshots now. False: there are no free
 * blocks for them, or the table is too old to name blocks. */
bool kv_table_snapshot(struct kv_table *table, const struct kv_name *names, uint32_t n_blocks);
/* Frees the snapshots after the block @name. */
void kv_pool_drop_snapshot(struct kv_pool *pool, const struct kv_name *name);

/* Initializes @table with memory for the block numbers of @max_tokens tokens. Extending the table
 * later allocates nothing. Returns 0 or -ENOMEM. */
int kv_table_init(struct kv_table *table, struct kv_pool *pool, uint32_t max_tokens);
void kv_table_done(struct kv_table *table);
/*
 * Makes room in @table for @n_tokens more tokens in all groups, in blocks that may be written.
 * Returns 0, or KV_FULL without a change of the table and the pool.
 */
int kv_table_extend(struct kv_table *table, uint32_t n_tokens);
/* Like kv_table_extend(), but leaves WINDOW groups out; kv_table_open() makes room there. */
int kv_table_reserve(struct kv_table *table, uint32_t n_tokens);
/*
 * Makes room in WINDOW groups, in blocks that may be written, for @n_tokens tokens from position
 * @pos on. The other groups must have room for these tokens already, and all tokens before @pos
 * must be computed. First gives back the blocks that no row from @pos on can see. Returns the
 * number of tokens for which there is room now, which is less than @n_tokens if there are too few
 * free blocks. A repeated call for the same @pos returns at least 1 if the first call did.
 */
uint32_t kv_table_open(struct kv_table *table, uint32_t pos, uint32_t n_tokens);
/* Returns the number of blocks of group @i_group that kv_table_extend() would take from the pool.
 */
uint32_t kv_table_need(const struct kv_table *table, uint32_t i_group, uint32_t n_tokens);
/* Returns whether kv_table_reserve() and then kv_table_open() for the row at @pos would succeed,
 * and leave at least @n_left free blocks in each group whose blocks grow with the text. */
bool kv_table_fits(const struct kv_table *table, uint32_t n_tokens, uint32_t pos, uint32_t n_left);
/* Returns whether the table @src has the blocks that kv_table_share() needs. */
bool kv_table_can_share(const struct kv_table *src, uint32_t n_tokens);
/* Makes the empty table @dst share the blocks of the first @n_tokens tokens of @src. Pools with
 * RECURRENT groups do not allow this. */
void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens);
/* Makes the empty table @table share the blocks of its first @n_tokens tokens, and copies
 * snapshots.
 * @n_tokens must be 0 or a result of kv_pool_n_usable() for @names. Returns 0; or KV_FULL without a
 * change if there is no free block for the copy of a snapshot. */
int kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens);
/* Gives the first @n blocks, which must be full, the names @names. If another block already has one
 * of these names, that block has the same content: the table then shares it and drops its own
 * block. */
void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n);
/* In all FULL groups, replaces block @i of the table, which must be unnamed and not shared, by the
 * block with the name @name. Returns false if not all of these groups have one. */
bool kv_table_replace(struct kv_table *table, const struct kv_name *name, uint32_t i);
/* Prepares the WINDOW groups of the table for content that the caller copies to their blocks:
 * afterwards they hold exactly the blocks that rows after the first @n_tokens tokens see, and all
 * these blocks may be written. @n_tokens is a multiple of the tokens of a block. Returns 0, or
 * KV_FULL without a change. */
int kv_table_jump(struct kv_table *table, uint32_t n_tokens);
/* Returns the address of the bytes of block @i of group @i_group, which must be unnamed and not
 * shared. Returns NULL if the CPU cannot write to the device's blocks (kv_pool_is_writable()); the
 * caller then uses kv_table_import(). */
void *kv_table_bytes(const struct kv_table *table, uint32_t i_group, uint32_t i);
/* Fills block @i of group @i_group of @table with the bytes at @from. This function may be called
 * only between two steps of the engine. Returns 0, or an error as kv_pool_export() does. */
int kv_table_import(struct kv_table *table, uint32_t i_group, uint32_t i, const void *from);
/* Returns whether blocks of @table may get names. This is so if the pool has not dropped all names
 * since the table got its first block. */
bool kv_table_is_current(const struct kv_table *table);
/* Takes a block of each RECURRENT group for the drafted rows of a step (graph/batch.h). It is freed
 * like a saved state. Returns 0, or KV_FULL without a change if there is no free block. */
int kv_table_spare(struct kv_table *table);
/* Copies the state of RECURRENT groups, so that kv_table_restore() can go back to it. Returns 0, or
 * KV_FULL without a change if there is no free block for a copy. */
int kv_table_save(struct kv_table *table);
/* Puts the saved state in place of the current one, which is dropped. */
void kv_table_restore(struct kv_table *table);
bool kv_table_has_saved(const struct kv_table *table);
/* Drops the saved state, if there is one. */
void kv_table_drop_saved(struct kv_table *table);
/* Drops all but the first @n_tokens tokens. The state of RECURRENT groups, which cannot go back to
 * an earlier token, must not include the tokens that are dropped, unless @n_tokens is 0. */
void kv_table_truncate(struct kv_table *table, uint32_t n_tokens);
/* Touches memory that the sequence will need. Each of the @n_rows rows from position @pos on has a
 * place in its block. The memory at the same place of the next block is touched, if the table has a
 * next block. Memory that was never used costs time at its first use. So its cost is spread over
 * the steps of a block, instead of being part of the step that writes the block's first row. Does
 * nothing if blocks are not memory of the host. */
void kv_table_touch(const struct kv_table *table, uint32_t pos, uint32_t n_rows);
/* Returns the part of a batch that computes @n_rows rows of the table's sequence from position @pos
 * on; its first row in the batch is @i_row. */
struct batch_seq kv_table_part(const struct kv_table *table, uint32_t i_row, uint32_t pos,
                               uint32_t n_rows);
