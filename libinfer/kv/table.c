/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements tables: a table is the ordered list of one sequence's KV blocks.
 *
 * A table holds one reference count of each of its blocks. Invariant: n_blocks is exactly the
 * number of blocks that n_tokens tokens need. Only the last block can be partly filled, so it is
 * the only block that a sequence may have to write to while other sequences share the block or can
 * find it by name. Therefore kv_table_extend() first replaces a shared or named last block by a
 * copy (copy on write).
 */
#include "kv/block.h"

#include <errno.h>

static uint64_t blocks_for(const struct kv_table *table, uint64_t n_tokens)
{
    return DIV_UP(n_tokens, table->pool->layout.block_tokens);
}

/* Returns whether the last block is partly filled, and is shared or named. */
static bool tail_is_shared(const struct kv_table *table)
{
    const struct kv_pool *pool = table->pool;
    uint32_t tail;

    if (table->n_tokens % pool->layout.block_tokens == 0)
        return false;
    tail = table->blocks[table->n_blocks - 1];
    return pool->refs[tail] > 1 || kv_prefix_has(&pool->prefix, tail);
}

int kv_table_init(struct kv_table *table, struct kv_pool *pool, uint32_t max_tokens)
{
    const uint32_t cap = (uint32_t)DIV_UP((uint64_t)max_tokens, pool->layout.block_tokens);
    uint32_t *blocks = NEW(uint32_t, cap);

    if (!blocks)
        return -ENOMEM;
    *table = (struct kv_table){.pool = pool, .blocks = blocks, .cap = cap};
    return 0;
}

void kv_table_done(struct kv_table *table)
{
    if (table->pool)
        kv_table_truncate(table, 0);
    free(table->blocks);
    *table = (struct kv_table){0};
}

uint32_t kv_table_need(const struct kv_table *table, uint32_t n_tokens)
{
    const uint64_t need = blocks_for(table, (uint64_t)table->n_tokens + n_tokens);

    if (n_tokens == 0)
        return 0;
    return (uint32_t)(need - table->n_blocks) + tail_is_shared(table);
}

int kv_table_extend(struct kv_table *table, uint32_t n_tokens)
{
    struct kv_pool *pool = table->pool;
    const uint64_t n_total = (uint64_t)table->n_tokens + n_tokens;
    const uint64_t need = blocks_for(table, n_total);

    assert(need <= table->cap);

    if (n_tokens == 0)
        return 0;
    if (kv_table_need(table, n_tokens) > kv_pool_n_free(pool))
        return KV_FULL;

    /* Nothing below can fail. If a partly filled last block is shared, writing to it would change
     * what other sequences read. So this sequence first gets its own copy. */
    if (tail_is_shared(table)) {
        uint32_t *tail = &table->blocks[table->n_blocks - 1];

        *tail = kv_block_take_copy(pool, *tail);
    }
    if (table->n_blocks == 0)
        table->epoch = pool->epoch;
    while (table->n_blocks < need)
        table->blocks[table->n_blocks++] = kv_block_take(pool);
    table->n_tokens = (uint32_t)n_total;
    return 0;
}

void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens)
{
    const uint32_t n_blocks = (uint32_t)blocks_for(src, n_tokens);

    assert(dst->pool == src->pool && dst->n_blocks == 0);
    assert(n_tokens <= src->n_tokens && n_blocks <= dst->cap);

    for (uint32_t i = 0; i < n_blocks; i++) {
        kv_block_ref(src->pool, src->blocks[i]);
        dst->blocks[i] = src->blocks[i];
    }
    dst->n_blocks = n_blocks;
    dst->n_tokens = n_tokens;
    dst->n_named = MIN(src->n_named, n_tokens / src->pool->layout.block_tokens);
    dst->epoch = src->epoch;
}

void kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens)
{
    struct kv_pool *pool = table->pool;
    const uint32_t n_blocks = (uint32_t)blocks_for(table, n_tokens);

    assert(table->n_blocks == 0 && n_blocks <= table->cap);

    for (uint32_t i = 0; i < n_blocks; i++) {
        const uint32_t block = kv_prefix_find(&pool->prefix, &names[i]);

        assert(block != KV_NO_BLOCK);
        kv_block_ref(pool, block);
        table->blocks[i] = block;
    }
    table->n_blocks = n_blocks;
    table->n_tokens = n_tokens;
    table->n_named = n_tokens / pool->layout.block_tokens;
    table->epoch = pool->epoch;
}

/* Returns the pool's number for block @i of the table. The block must not be shared and must not
 * have a name.
 */
static uint32_t own_block(const struct kv_table *table, uint32_t i)
{
    const struct kv_pool *pool = table->pool;

    assert(i < table->n_blocks && pool->refs[table->blocks[i]] == 1 &&
           !kv_prefix_has(&pool->prefix, table->blocks[i]));
    return table->blocks[i];
}

void *kv_table_bytes(const struct kv_table *table, uint32_t i)
{
    const struct kv_pool *pool = table->pool;
    const uint32_t block = own_block(table, i);

    if (!pool->backend->ops->kv_bytes)
        return NULL;
    return pool->backend->ops->kv_bytes(pool->backend, pool->store, block);
}

int kv_table_import(struct kv_table *table, uint32_t i, const void *from)
{
    struct kv_pool *pool = table->pool;

    return backend_kv_import(pool->backend, pool->store, own_block(table, i), from);
}

bool kv_table_is_current(const struct kv_table *table)
{
    return table->epoch == table->pool->epoch;
}

/* Gives block @i the name @name, or replaces it by the block that already has this name. */
static void name_block(struct kv_table *table, const struct kv_name *name, uint32_t i)
{
    struct kv_pool *pool = table->pool;
    const uint32_t own = table->blocks[i], known = kv_prefix_find(&pool->prefix, name);

    assert(i == 0 || kv_prefix_has(&pool->prefix, table->blocks[i - 1]));
    if (known == KV_NO_BLOCK) {
        kv_prefix_put(&pool->prefix, name, own);
    } else if (known != own) {
        kv_block_ref(pool, known);
        kv_block_unref(pool, own);
        table->blocks[i] = known;
    }
}

void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n)
{
    assert(n <= table->n_tokens / table->pool->layout.block_tokens);

    if (!kv_table_is_current(table))
        return;
    for (; table->n_named < n; table->n_named++)
        name_block(table, &names[table->n_named], table->n_named);
}

void kv_table_truncate(struct kv_table *table, uint32_t n_tokens)
{
    const uint32_t keep = (uint32_t)blocks_for(table, n_tokens);

    assert(n_tokens <= table->n_tokens);

    while (table->n_blocks > keep)
        kv_block_unref(table->pool, table->blocks[--table->n_blocks]);
    table->n_tokens = n_tokens;
    table->n_named = MIN(table->n_named, n_tokens / table->pool->layout.block_tokens);
}
