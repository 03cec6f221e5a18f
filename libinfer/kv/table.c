/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements tables: a table is the ordered list of one sequence's KV blocks, for each group of the
 * state. graph/state.h explains the groups, and pool.h snapshots.
 *
 * A table holds one reference to each of its blocks. Invariant: n_blocks is exactly the number of
 * blocks that n_tokens tokens need. Only the last block can be partly filled, so it is the only
 * block that a sequence may have to write to while other sequences share the block or can find it
 * by name. Therefore the functions that make room first replace a shared or named last block by a
 * copy (copy on write).
 */
#include "kv/block.h"

#include <errno.h>

#include "core/pages.h"

static uint64_t blocks_for(const struct kv_table *table, uint64_t n_tokens)
{
    return DIV_UP(n_tokens, table->pool->layout.block_tokens);
}

/* Returns the number of blocks that a FULL or WINDOW group holds of the first @n_tokens tokens, if
 * it holds its blocks from the first on. */
static uint64_t group_end(const struct kv_table *table, uint32_t i_group, uint64_t n_tokens)
{
    const uint64_t n = blocks_for(table, n_tokens);

    return kv_pool_last_seen(&table->pool->layout, i_group, (uint32_t)n);
}

static uint32_t n_groups(const struct kv_table *table)
{
    return table->pool->layout.n_groups;
}

static bool is_rule(const struct kv_table *table, uint32_t i_group, enum state_rule rule)
{
    return kv_pool_rule(table->pool, i_group) == rule;
}

/* Returns whether the block of the token at @pos is partly filled by earlier tokens, and is shared
 * or named. */
static bool tail_is_shared(const struct kv_table *table, uint32_t i_group, uint32_t pos)
{
    const struct kv_pool *pool = table->pool;
    const uint32_t i = pos / pool->layout.block_tokens;
    uint32_t tail;

    if (pos % pool->layout.block_tokens == 0 || i >= table->end[i_group])
        return false;
    tail = table->blocks[i_group][i];
    return pool->refs[tail] > 1 || kv_prefix_has(&pool->prefix, tail);
}

int kv_table_init(struct kv_table *table, struct kv_pool *pool, uint32_t max_tokens)
{
    const uint32_t cap = (uint32_t)DIV_UP((uint64_t)max_tokens, pool->layout.block_tokens);

    *table = (struct kv_table){.pool = pool, .cap = cap};
    for (uint32_t g = 0; g < STATE_GROUPS_MAX; g++)
        table->saved[g] = KV_NO_BLOCK;
    for (uint32_t g = 0; g < pool->layout.n_groups; g++) {
        const uint32_t n = is_rule(table, g, STATE_RECURRENT) ? 1 : cap;

        table->blocks[g] = NEW(uint32_t, n);
        if (!table->blocks[g]) {
            kv_table_done(table);
            return -ENOMEM;
        }
        for (uint32_t i = 0; !is_rule(table, g, STATE_FULL) && i < n; i++)
            table->blocks[g][i] = KV_NO_BLOCK;
    }
    return 0;
}

void kv_table_done(struct kv_table *table)
{
    if (table->pool)
        kv_table_truncate(table, 0);
    for (uint32_t g = 0; g < STATE_GROUPS_MAX; g++)
        free(table->blocks[g]);
    *table = (struct kv_table){0};
}

/* Returns the number of blocks that a FULL or WINDOW group has to take from the pool to have room
 * for @n_tokens tokens from @pos on. */
static uint32_t need_at(const struct kv_table *table, uint32_t i_group, uint32_t pos,
                        uint32_t n_tokens)
{
    const uint64_t end = group_end(table, i_group, (uint64_t)pos + n_tokens);
    const uint64_t held = table->end[i_group];

    if (n_tokens == 0)
        return 0;
    return (uint32_t)(end > held ? end - held : 0) + tail_is_shared(table, i_group, pos);
}

uint32_t kv_table_need(const struct kv_table *table, uint32_t i_group, uint32_t n_tokens)
{
    if (is_rule(table, i_group, STATE_RECURRENT))
        return table->end[i_group] == 0 && n_tokens > 0;
    return need_at(table, i_group, table->n_tokens, n_tokens);
}

/* Makes room in a FULL or WINDOW group. There must be enough free blocks. If a partly filled last
 * block is shared, writing to it would change what other sequences read. So this sequence first
 * gets its own copy. */
static void grow_group(struct kv_table *table, uint32_t i_group, uint32_t pos, uint32_t n_tokens)
{
    const uint64_t end = group_end(table, i_group, (uint64_t)pos + n_tokens);
    uint32_t *blocks = table->blocks[i_group];

    if (n_tokens == 0)
        return;
    if (tail_is_shared(table, i_group, pos)) {
        uint32_t *tail = &blocks[pos / table->pool->layout.block_tokens];

        *tail = kv_block_take_copy(table->pool, *tail);
    }
    while (table->end[i_group] < end)
        blocks[table->end[i_group]++] = kv_block_take(table->pool, i_group);
}

static bool has_free(const struct kv_table *table, bool windows, uint32_t n_tokens)
{
    for (uint32_t g = 0; g < n_groups(table); g++)
        if ((windows || !is_rule(table, g, STATE_WINDOW)) &&
            kv_table_need(table, g, n_tokens) > kv_pool_group_free(table->pool, g))
            return false;
    return true;
}

int kv_table_reserve(struct kv_table *table, uint32_t n_tokens)
{
    const uint64_t n_total = (uint64_t)table->n_tokens + n_tokens;

    assert(blocks_for(table, n_total) <= table->cap);

    if (n_tokens == 0)
        return 0;
    if (!has_free(table, false, n_tokens))
        return KV_FULL;

    /* Nothing below can fail. */
    if (table->n_blocks == 0)
        table->epoch = table->pool->epoch;
    for (uint32_t g = 0; g < n_groups(table); g++) {
        if (is_rule(table, g, STATE_FULL))
            grow_group(table, g, table->n_tokens, n_tokens);
        if (is_rule(table, g, STATE_RECURRENT) && table->end[g] == 0)
            table->blocks[g][table->end[g]++] = kv_block_take(table->pool, g);
    }
    table->n_tokens = (uint32_t)n_total;
    table->n_blocks = (uint32_t)blocks_for(table, n_total);
    return 0;
}

int kv_table_extend(struct kv_table *table, uint32_t n_tokens)
{
    const uint32_t pos = table->n_tokens;
    int r;

    if (!has_free(table, true, n_tokens))
        return KV_FULL;
    r = kv_table_reserve(table, n_tokens);
    for (uint32_t g = 0; r == 0 && g < n_groups(table); g++)
        if (is_rule(table, g, STATE_WINDOW))
            grow_group(table, g, pos, n_tokens);
    return r;
}

/* Gives back the blocks of a WINDOW group before block @first. */
static void pass_blocks(struct kv_table *table, uint32_t i_group, uint32_t first)
{
    uint32_t *begin = &table->begin[i_group];

    for (; *begin < MIN(first, table->end[i_group]); (*begin)++) {
        kv_block_unref(table->pool, table->blocks[i_group][*begin]);
        table->blocks[i_group][*begin] = KV_NO_BLOCK;
    }
}

/* Returns for how many tokens from @pos on, at most @n_tokens, a WINDOW group has room or free
 * blocks. */
static uint32_t room_in(const struct kv_table *table, uint32_t i_group, uint32_t pos,
                        uint32_t n_tokens)
{
    const uint32_t n_free = kv_pool_group_free(table->pool, i_group);
    const uint32_t n_copies = tail_is_shared(table, i_group, pos);
    uint64_t end;

    if (n_copies > n_free)
        return 0;
    if (need_at(table, i_group, pos, n_tokens) <= n_free)
        return n_tokens;
    end = ((uint64_t)table->end[i_group] + n_free - n_copies) * table->pool->layout.block_tokens;
    return (uint32_t)MIN(end - pos, (uint64_t)n_tokens);
}

uint32_t kv_table_open(struct kv_table *table, uint32_t pos, uint32_t n_tokens)
{
    const struct kv_layout *layout = &table->pool->layout;
    uint32_t n = n_tokens;

    assert((uint64_t)pos + n_tokens <= table->n_tokens);
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (is_rule(table, g, STATE_WINDOW)) {
            pass_blocks(table, g, kv_pool_first_seen(layout, g, pos));
            n = MIN(n, room_in(table, g, pos, n));
        }
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (is_rule(table, g, STATE_WINDOW))
            grow_group(table, g, pos, n);
    return n;
}

bool kv_table_fits(const struct kv_table *table, uint32_t n_tokens, uint32_t pos, uint32_t n_left)
{
    for (uint32_t g = 0; g < n_groups(table); g++) {
        const bool grows = !is_rule(table, g, STATE_RECURRENT);
        const uint32_t need = is_rule(table, g, STATE_WINDOW) ? need_at(table, g, pos, 1)
                                                              : kv_table_need(table, g, n_tokens);

        if ((uint64_t)need + (grows ? n_left : 0) > kv_pool_group_free(table->pool, g))
            return false;
    }
    return true;
}

/* Adds @block to @table as block @i of group @i_group, and counts this reference to the block. */
static void hold_block(struct kv_table *table, uint32_t i_group, uint32_t i, uint32_t block)
{
    kv_block_ref(table->pool, block);
    table->blocks[i_group][i] = block;
}

/* Sets n_tokens, n_blocks and the range of blocks of each FULL or WINDOW group to those of a table
 * with @n_tokens tokens. The caller adds the blocks themselves. */
static void set_extent(struct kv_table *table, uint32_t n_tokens)
{
    const struct kv_layout *layout = &table->pool->layout;

    table->n_tokens = n_tokens;
    table->n_blocks = (uint32_t)blocks_for(table, n_tokens);
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (layout->groups[g].rule != STATE_RECURRENT) {
            table->begin[g] = kv_pool_first_seen(layout, g, n_tokens);
            table->end[g] = kv_pool_last_seen(layout, g, table->n_blocks);
        }
}

bool kv_table_can_share(const struct kv_table *src, uint32_t n_tokens)
{
    const struct kv_layout *layout = &src->pool->layout;

    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (layout->groups[g].rule == STATE_RECURRENT ||
            src->begin[g] > kv_pool_first_seen(layout, g, n_tokens) ||
            src->end[g] < group_end(src, g, n_tokens))
            return false;
    return true;
}

void kv_table_share(struct kv_table *dst, const struct kv_table *src, uint32_t n_tokens)
{
    assert(dst->pool == src->pool && dst->n_blocks == 0);
    assert(n_tokens <= src->n_tokens && blocks_for(src, n_tokens) <= dst->cap);
    assert(kv_table_can_share(src, n_tokens));

    set_extent(dst, n_tokens);
    for (uint32_t g = 0; g < n_groups(dst); g++)
        for (uint32_t i = dst->begin[g]; i < dst->end[g]; i++)
            hold_block(dst, g, i, src->blocks[g][i]);
    dst->n_named = MIN(src->n_named, n_tokens / src->pool->layout.block_tokens);
    dst->epoch = src->epoch;
}

/* Copies the snapshots after the block @name to new blocks of the empty table. */
static int copy_snapshots(struct kv_table *table, const struct kv_name *name)
{
    struct kv_pool *pool = table->pool;
    bool full = false;

    /* First reserve the snapshots, so that taking a block does not evict them. */
    for (uint32_t g = 0; g < n_groups(table); g++)
        if (is_rule(table, g, STATE_RECURRENT))
            hold_block(table, g, 0, kv_prefix_find(&pool->prefix, name, g));
    for (uint32_t g = 0; g < n_groups(table); g++)
        full |= is_rule(table, g, STATE_RECURRENT) && kv_pool_group_free(pool, g) == 0;
    for (uint32_t g = 0; g < n_groups(table); g++) {
        uint32_t *block = table->blocks[g];

        if (!is_rule(table, g, STATE_RECURRENT))
            continue;
        if (full)
            kv_block_unref(pool, *block);
        *block = full ? KV_NO_BLOCK : kv_block_take_copy(pool, *block);
        table->end[g] = !full;
    }
    return full ? KV_FULL : 0;
}

int kv_table_adopt(struct kv_table *table, const struct kv_name *names, uint32_t n_tokens)
{
    struct kv_pool *pool = table->pool;

    assert(table->n_blocks == 0 && blocks_for(table, n_tokens) <= table->cap);

    if (n_tokens > 0 && kv_pool_has_rule(pool, STATE_RECURRENT) &&
        copy_snapshots(table, &names[n_tokens / pool->layout.block_tokens - 1]) == KV_FULL)
        return KV_FULL;
    set_extent(table, n_tokens);
    for (uint32_t g = 0; g < n_groups(table); g++)
        for (uint32_t i = table->begin[g]; !is_rule(table, g, STATE_RECURRENT) && i < table->end[g];
             i++)
            hold_block(table, g, i, kv_prefix_find(&pool->prefix, &names[i], g));
    table->n_named = n_tokens / pool->layout.block_tokens;
    table->epoch = pool->epoch;
    return 0;
}

/* Returns the pool's number for block @i of the table. The block must not be shared and must not
 * have a name. */
static uint32_t own_block(const struct kv_table *table, uint32_t i_group, uint32_t i)
{
    const struct kv_pool *pool = table->pool;
    const uint32_t block = table->blocks[i_group][i];

    assert(i >= table->begin[i_group] && i < table->end[i_group]);
    assert(pool->refs[block] == 1 && !kv_prefix_has(&pool->prefix, block));
    return block;
}

void *kv_table_bytes(const struct kv_table *table, uint32_t i_group, uint32_t i)
{
    const struct kv_pool *pool = table->pool;
    const uint32_t block = own_block(table, i_group, i);

    if (!pool->backend->ops->kv_bytes)
        return NULL;
    return pool->backend->ops->kv_bytes(pool->backend, pool->store, block);
}

int kv_table_import(struct kv_table *table, uint32_t i_group, uint32_t i, const void *from)
{
    struct kv_pool *pool = table->pool;

    return backend_kv_import(pool->backend, pool->store, own_block(table, i_group, i), from);
}

bool kv_table_is_current(const struct kv_table *table)
{
    return table->epoch == table->pool->epoch;
}

/* Makes the table hold the named block @known instead of its own block @i. */
static void switch_block(struct kv_table *table, uint32_t i_group, uint32_t i, uint32_t known)
{
    const uint32_t own = table->blocks[i_group][i];

    hold_block(table, i_group, i, known);
    kv_block_unref(table->pool, own);
}

/* Gives block @i the name @name, or replaces it by the block that already has this name. */
static void name_block(struct kv_table *table, uint32_t i_group, const struct kv_name *name,
                       uint32_t i)
{
    struct kv_pool *pool = table->pool;
    const uint32_t own = table->blocks[i_group][i];
    const uint32_t known = kv_prefix_find(&pool->prefix, name, i_group);

    if (known == KV_NO_BLOCK)
        kv_prefix_put(&pool->prefix, name, i + 1, own);
    else if (known != own)
        switch_block(table, i_group, i, known);
}

void kv_table_name(struct kv_table *table, const struct kv_name *names, uint32_t n)
{
    assert(n <= table->n_tokens / table->pool->layout.block_tokens);

    if (!kv_table_is_current(table))
        return;
    for (; table->n_named < n; table->n_named++) {
        const uint32_t i = table->n_named;

        for (uint32_t g = 0; g < n_groups(table); g++)
            if (!is_rule(table, g, STATE_RECURRENT) && i >= table->begin[g] && i < table->end[g])
                name_block(table, g, &names[i], i);
    }
}

bool kv_table_replace(struct kv_table *table, const struct kv_name *name, uint32_t i)
{
    const struct kv_prefix *prefix = &table->pool->prefix;

    for (uint32_t g = 0; g < n_groups(table); g++)
        if (is_rule(table, g, STATE_FULL) && kv_prefix_find(prefix, name, g) == KV_NO_BLOCK)
            return false;
    for (uint32_t g = 0; g < n_groups(table); g++)
        if (is_rule(table, g, STATE_FULL))
            switch_block(table, g, i, kv_prefix_find(prefix, name, g));
    return true;
}

int kv_table_jump(struct kv_table *table, uint32_t n_tokens)
{
    const struct kv_layout *layout = &table->pool->layout;
    const uint32_t end = n_tokens / layout->block_tokens;

    assert(n_tokens % layout->block_tokens == 0 && n_tokens <= table->n_tokens);
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (is_rule(table, g, STATE_WINDOW) &&
            kv_pool_last_seen(layout, g, end) - kv_pool_first_seen(layout, g, n_tokens) >
                kv_pool_group_free(table->pool, g))
            return KV_FULL;
    for (uint32_t g = 0; g < layout->n_groups; g++) {
        if (!is_rule(table, g, STATE_WINDOW))
            continue;
        pass_blocks(table, g, table->end[g]);
        table->begin[g] = table->end[g] = kv_pool_first_seen(layout, g, n_tokens);
        table->n_named = MIN(table->n_named, table->begin[g]);
        while (table->end[g] < kv_pool_last_seen(layout, g, end))
            table->blocks[g][table->end[g]++] = kv_block_take(table->pool, g);
    }
    return 0;
}

int kv_table_spare(struct kv_table *table)
{
    struct kv_pool *pool = table->pool;

    for (uint32_t g = 0; g < n_groups(table); g++)
        if (is_rule(table, g, STATE_RECURRENT) && table->saved[g] == KV_NO_BLOCK &&
            kv_pool_group_free(pool, g) == 0)
            return KV_FULL;
    for (uint32_t g = 0; g < n_groups(table); g++)
        if (is_rule(table, g, STATE_RECURRENT) && table->saved[g] == KV_NO_BLOCK)
            table->saved[g] = kv_block_take(pool, g);
    return 0;
}

int kv_table_save(struct kv_table *table)
{
    struct kv_pool *pool = table->pool;
    const int r = kv_table_spare(table);

    for (uint32_t g = 0; r == 0 && g < n_groups(table); g++)
        if (is_rule(table, g, STATE_RECURRENT))
            pool->backend->ops->kv_copy(pool->backend, pool->store, table->saved[g],
                                        table->blocks[g][0]);
    return r;
}

void kv_table_restore(struct kv_table *table)
{
    for (uint32_t g = 0; g < n_groups(table); g++) {
        uint32_t *block = table->blocks[g];

        if (!is_rule(table, g, STATE_RECURRENT))
            continue;
        assert(table->saved[g] != KV_NO_BLOCK && table->end[g] == 1);
        kv_block_unref(table->pool, *block);
        *block = table->saved[g];
        table->saved[g] = KV_NO_BLOCK;
    }
}

bool kv_table_has_saved(const struct kv_table *table)
{
    for (uint32_t g = 0; g < n_groups(table); g++)
        if (table->saved[g] != KV_NO_BLOCK)
            return true;
    return false;
}

void kv_table_drop_saved(struct kv_table *table)
{
    for (uint32_t g = 0; g < n_groups(table); g++) {
        if (table->saved[g] == KV_NO_BLOCK)
            continue;
        kv_block_unref(table->pool, table->saved[g]);
        table->saved[g] = KV_NO_BLOCK;
    }
}

void kv_table_truncate(struct kv_table *table, uint32_t n_tokens)
{
    const uint32_t keep = (uint32_t)blocks_for(table, n_tokens);

    assert(n_tokens <= table->n_tokens);

    if (keep == 0)
        kv_table_drop_saved(table);
    for (uint32_t g = 0; g < n_groups(table); g++) {
        const uint32_t first = MAX(keep, table->begin[g]);

        while (table->end[g] > first) {
            uint32_t *block = &table->blocks[g][--table->end[g]];

            kv_block_unref(table->pool, *block);
            *block = KV_NO_BLOCK;
        }
        if (keep == 0)
            table->begin[g] = table->end[g] = 0;
    }
    table->n_blocks = keep;
    table->n_tokens = n_tokens;
    table->n_named = MIN(table->n_named, n_tokens / table->pool->layout.block_tokens);
}

void kv_table_touch(const struct kv_table *table, uint32_t pos, uint32_t n_rows)
{
    const struct kv_pool *pool = table->pool;
    const struct backend_ops *ops = pool->backend->ops;
    const uint32_t bt = pool->layout.block_tokens, at = pos % bt, n = MIN(n_rows, bt - at);

    for (uint32_t g = 0; ops->kv_bytes && ops->kv_size && g < n_groups(table); g++) {
        const uint32_t i = pos / bt + 1;

        if (kv_pool_rule(pool, g) == STATE_FULL && i < table->end[g]) {
            const uint32_t block = table->blocks[g][i];
            const uint64_t size = ops->kv_size(pool->backend, pool->store, block);
            unsigned char *p = ops->kv_bytes(pool->backend, pool->store, block);

            pages_touch(p + size * at / bt, size * n / bt);
        }
    }
    if (n < n_rows)
        kv_table_touch(table, pos + n, n_rows - n);
}

struct batch_seq kv_table_part(const struct kv_table *table, uint32_t i_row, uint32_t pos,
                               uint32_t n_rows)
{
    struct batch_seq seq = {
        .i_row = i_row, .n_rows = n_rows, .pos = pos, .n_blocks = table->n_blocks};

    for (uint32_t g = 0; g < n_groups(table); g++)
        seq.blocks[g] = table->blocks[g];
    return seq;
}
