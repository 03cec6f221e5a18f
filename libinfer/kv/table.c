/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of blocks: one sequence's place in the KV store
 *
 * A table owns one count of each of its blocks. Invariant: n_blocks is exactly what n_tokens
 * need. Only the last block can be partly filled, so it is the only one that a sequence writes to
 * while another may read it; extending copies it first (copy on write).
 */
#include "kv/block.h"

#include <errno.h>

static uint64_t blocks_for(const struct kv_table *table, uint64_t n_tokens)
{
    return DIV_UP(n_tokens, table->pool->layout.block_tokens);
}

/* Whether the last block has room and someone else reads it. */
static bool tail_is_shared(const struct kv_table *table)
{
    const struct kv_pool *pool = table->pool;

    return table->n_tokens % pool->layout.block_tokens != 0 &&
           pool->refs[table->blocks[table->n_blocks - 1]] > 1;
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
    if (kv_table_need(table, n_tokens) > pool->n_free)
        return KV_FULL;

    /* Nothing below can fail. A half-filled last block can still be shared; writing there would
     * change what the other sequence reads, so this sequence first gets a copy of its own. */
    if (tail_is_shared(table)) {
        uint32_t *tail = &table->blocks[table->n_blocks - 1];

        *tail = kv_block_take_copy(pool, *tail);
    }
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
}

void kv_table_truncate(struct kv_table *table, uint32_t n_tokens)
{
    const uint32_t keep = (uint32_t)blocks_for(table, n_tokens);

    assert(n_tokens <= table->n_tokens);

    while (table->n_blocks > keep)
        kv_block_unref(table->pool, table->blocks[--table->n_blocks]);
    table->n_tokens = n_tokens;
}
