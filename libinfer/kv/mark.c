/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds marks, which are positions at which computing can be resumed, and makes snapshots.
 *
 * At a position, a sequence needs the FULL blocks of all earlier tokens, the WINDOW blocks of the
 * tokens that its next row sees, and the snapshots of the RECURRENT groups. graph/state.h explains
 * these groups, and pool.h snapshots.
 */
#include "kv/block.h"

uint32_t kv_pool_first_seen(const struct kv_layout *layout, uint32_t i_group, uint32_t n_tokens)
{
    const struct state_group *group = &layout->groups[i_group];

    if (group->rule != STATE_WINDOW || group->first_only || group->window > n_tokens)
        return 0;
    return (n_tokens + 1 - group->window) / layout->block_tokens;
}

uint32_t kv_pool_last_seen(const struct kv_layout *layout, uint32_t i_group, uint32_t n_blocks)
{
    return layout->groups[i_group].first_only ? MIN(n_blocks, 1u) : n_blocks;
}

static bool has_block(const struct kv_pool *pool, const struct kv_name *name, uint32_t i_group)
{
    return kv_prefix_find(&pool->prefix, name, i_group) != KV_NO_BLOCK;
}

/* If a name of a chain has a block in a FULL group, all names before it have one, too. So bisection
 * finds the first name that no block of the group has. */
static uint32_t count_known(const struct kv_pool *pool, uint32_t i_group,
                            const struct kv_name *names, uint32_t n)
{
    uint32_t first = 0;

    while (first < n) {
        const uint32_t middle = first + (n - first) / 2;

        if (has_block(pool, &names[middle], i_group))
            first = middle + 1;
        else
            n = middle;
    }
    return first;
}

uint32_t kv_pool_n_known(const struct kv_pool *pool, const struct kv_name *names, uint32_t n)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        if (kv_pool_rule(pool, g) == STATE_FULL)
            n = count_known(pool, g, names, n);
    return n;
}

/* Sets *ret_missing to whether the pool lacks one of the WINDOW blocks that the row after the first
 * @n_tokens tokens sees. If so, returns the number of blocks before the last one that it lacks. */
static uint32_t missing_window(const struct kv_pool *pool, const struct kv_name *names,
                               uint32_t n_tokens, bool *ret_missing)
{
    const uint32_t end = (uint32_t)DIV_UP((uint64_t)n_tokens, pool->layout.block_tokens);

    *ret_missing = false;
    for (uint32_t g = 0; g < pool->layout.n_groups; g++) {
        const uint32_t first = kv_pool_first_seen(&pool->layout, g, n_tokens);

        if (kv_pool_rule(pool, g) != STATE_WINDOW)
            continue;
        for (uint32_t i = kv_pool_last_seen(&pool->layout, g, end); i > first; i--)
            if (!has_block(pool, &names[i - 1], g)) {
                *ret_missing = true;
                return i - 1;
            }
    }
    return 0;
}

/* Like kv_pool_n_usable() for pools without RECURRENT groups, if the pool has the FULL blocks of
 * the first @n_tokens tokens. */
static uint32_t usable_windows(const struct kv_pool *pool, const struct kv_name *names,
                               uint32_t n_tokens)
{
    bool missing = true;

    while (n_tokens > 0 && missing) {
        const uint32_t before = missing_window(pool, names, n_tokens, &missing);

        if (missing)
            n_tokens = before * pool->layout.block_tokens;
    }
    return n_tokens;
}

/* Returns whether the pool has the snapshots after the first @n_tokens tokens, and the WINDOW
 * blocks that the next row sees. */
static bool is_mark(const struct kv_pool *pool, const struct kv_name *names, uint32_t n_tokens)
{
    const struct kv_name *name = &names[n_tokens / pool->layout.block_tokens - 1];
    bool missing;

    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        if (kv_pool_rule(pool, g) == STATE_RECURRENT && !has_block(pool, name, g))
            return false;
    missing_window(pool, names, n_tokens, &missing);
    return !missing;
}

/* Looks for a usable mark among the snapshots, which are few. */
static uint32_t usable_snapshot(const struct kv_pool *pool, uint32_t i_group,
                                const struct kv_name *names, uint32_t max_blocks)
{
    const uint32_t first = kv_layout_first(&pool->layout, i_group);
    const uint32_t end = kv_layout_first(&pool->layout, i_group + 1);
    const uint32_t block_tokens = pool->layout.block_tokens;
    uint32_t best = 0;

    for (uint32_t i = first; i < end; i++) {
        const struct prefix_entry *e = &pool->prefix.entries[i];

        if (e->named && e->depth > best && e->depth <= max_blocks &&
            kv_name_equal(&e->name, &names[e->depth - 1]) &&
            is_mark(pool, names, e->depth * block_tokens))
            best = e->depth;
    }
    return best * block_tokens;
}

uint32_t kv_pool_n_usable(const struct kv_pool *pool, const struct kv_name *names, uint32_t n,
                          uint32_t max_tokens)
{
    const uint32_t block_tokens = pool->layout.block_tokens;
    const uint32_t n_known = kv_pool_n_known(pool, names, n);
    const uint64_t n_tokens = (uint64_t)n_known * block_tokens;

    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        if (kv_pool_rule(pool, g) == STATE_RECURRENT)
            return usable_snapshot(pool, g, names, MIN(n_known, max_tokens / block_tokens));
    return usable_windows(pool, names, (uint32_t)MIN(n_tokens, (uint64_t)max_tokens));
}

/* Makes @block, a snapshot, the youngest idle block of its group, if it is idle (kv/pool.h). */
static void touch_snapshot(struct kv_pool *pool, uint32_t block)
{
    kv_block_ref(pool, block);
    kv_block_unref(pool, block);
}

bool kv_table_snapshot(struct kv_table *table, const struct kv_name *names, uint32_t n_blocks)
{
    struct kv_pool *pool = table->pool;
    bool done = kv_table_is_current(table);

    for (uint32_t g = 0; done && g < pool->layout.n_groups; g++) {
        uint32_t block;

        if (kv_pool_rule(pool, g) != STATE_RECURRENT)
            continue;
        block = kv_prefix_find(&pool->prefix, &names[n_blocks - 1], g);
        done = block != KV_NO_BLOCK || kv_pool_group_free(pool, g) > 0;
        if (block == KV_NO_BLOCK && done) {
            block = kv_block_take(pool, g);
            pool->backend->ops->kv_copy(pool->backend, pool->store, block, table->blocks[g][0]);
            kv_prefix_put(&pool->prefix, &names[n_blocks - 1], n_blocks, block);
            kv_block_unref(pool, block);
        } else if (done) {
            touch_snapshot(pool, block);
        }
    }
    return done;
}

void kv_pool_drop_snapshot(struct kv_pool *pool, const struct kv_name *name)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++) {
        const uint32_t block = kv_prefix_find(&pool->prefix, name, g);

        if (kv_pool_rule(pool, g) != STATE_RECURRENT || block == KV_NO_BLOCK)
            continue;
        /* The block becomes unnamed while it is taken, so it is free afterwards. */
        kv_block_ref(pool, block);
        kv_prefix_remove(&pool->prefix, block);
        kv_block_unref(pool, block);
    }
}
