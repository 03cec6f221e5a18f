/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the pool of KV blocks.
 *
 * The engine thread owns the pool. The backend holds the bytes of the blocks; the pool holds their
 * numbers, reference counts and names. The free blocks of a group without a name form a stack: the
 * block that was freed most recently is used next, so a lightly loaded pool touches little memory.
 * Invariant: a block whose count is 0 is idle if it has a name, else it is on the stack; a block
 * with a higher count is neither idle nor on the stack.
 */
#include "kv/block.h"

#include <errno.h>

static uint32_t *free_stack(struct kv_pool *pool, uint32_t i_group)
{
    return pool->free_blocks + kv_layout_first(&pool->layout, i_group);
}

static void free_all(struct kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++) {
        const uint32_t end = kv_layout_first(&pool->layout, g + 1), n = pool->layout.n_blocks[g];

        for (uint32_t i = 0; i < n; i++)
            free_stack(pool, g)[i] = end - 1 - i;
        pool->n_free[g] = n;
    }
}

int kv_pool_new(struct backend *backend, const struct kv_layout *layout, struct kv_pool **ret_pool)
{
    const uint32_t n_blocks = kv_layout_first(layout, layout->n_groups);
    _cleanup_(kv_pool_freep) struct kv_pool *pool = NEW(struct kv_pool, 1);
    int r;

    assert(layout->block_tokens > 0);

    if (!pool)
        return -ENOMEM;
    pool->backend = backend;
    pool->layout = *layout;
    pool->n_blocks = n_blocks;
    pool->refs = NEW(uint32_t, n_blocks);
    pool->free_blocks = NEW(uint32_t, n_blocks);
    if (!pool->refs || !pool->free_blocks)
        return -ENOMEM;
    r = kv_prefix_init(&pool->prefix, layout->n_blocks, layout->n_groups);
    if (r < 0)
        return r;

    r = backend->ops->kv_new(backend, layout, &pool->store);
    if (r < 0)
        return r;

    free_all(pool);
    *ret_pool = STEAL(pool);
    return 0;
}

struct kv_pool *kv_pool_free(struct kv_pool *pool)
{
    if (!pool)
        return NULL;
    assert(!pool->store || kv_pool_n_free(pool) == pool->n_blocks);
    if (pool->store)
        pool->backend->ops->kv_free(pool->backend, pool->store);
    kv_prefix_done(&pool->prefix);
    free(pool->refs);
    free(pool->free_blocks);
    free(pool);
    return NULL;
}

struct kv_store *kv_pool_store(struct kv_pool *pool)
{
    return pool->store;
}

uint32_t kv_pool_n_blocks(const struct kv_pool *pool)
{
    return pool->n_blocks;
}

uint32_t kv_pool_group_free(const struct kv_pool *pool, uint32_t i_group)
{
    return pool->n_free[i_group] + pool->prefix.idle[i_group].n;
}

uint32_t kv_pool_group_idle(const struct kv_pool *pool, uint32_t i_group)
{
    return pool->prefix.idle[i_group].n;
}

uint32_t kv_pool_n_free(const struct kv_pool *pool)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        n += kv_pool_group_free(pool, g);
    return n;
}

uint32_t kv_pool_n_idle(const struct kv_pool *pool)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        n += kv_pool_group_idle(pool, g);
    return n;
}

uint32_t kv_pool_block_tokens(const struct kv_pool *pool)
{
    return pool->layout.block_tokens;
}

const struct kv_layout *kv_pool_layout(const struct kv_pool *pool)
{
    return &pool->layout;
}

/* Gives back to the system the memory of free blocks without a name, among the blocks @first … @end
 * - 1 of one group. */
static void drop_free(struct kv_pool *pool, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i <= end; i++) {
        if (i < end && pool->refs[i] == 0 && !kv_prefix_has(&pool->prefix, i))
            continue;
        if (i > first)
            pool->backend->ops->kv_drop(pool->backend, pool->store, first, i - first);
        first = i + 1;
    }
}

void kv_pool_rest(struct kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        drop_free(pool, kv_layout_first(&pool->layout, g), kv_layout_first(&pool->layout, g + 1));
}

uint32_t kv_pool_find(const struct kv_pool *pool, const struct kv_name *name, uint32_t i_group)
{
    return kv_prefix_find(&pool->prefix, name, i_group);
}

const struct kv_name *kv_pool_name(const struct kv_pool *pool, uint32_t block)
{
    return kv_prefix_has(&pool->prefix, block) ? &pool->prefix.entries[block].name : NULL;
}

uint64_t kv_pool_block_bytes(const struct kv_pool *pool, uint32_t block)
{
    const struct backend_ops *ops = pool->backend->ops;

    return ops->kv_size ? ops->kv_size(pool->backend, pool->store, block) : 0;
}

uint64_t kv_pool_group_bytes(const struct kv_pool *pool, uint32_t i_group)
{
    return kv_pool_block_bytes(pool, kv_layout_first(&pool->layout, i_group));
}

bool kv_pool_is_writable(const struct kv_pool *pool)
{
    return pool->backend->ops->kv_bytes;
}

int kv_pool_export(const struct kv_pool *pool, uint32_t block, void *to)
{
    return backend_kv_export(pool->backend, pool->store, block, to);
}

static void push_free(struct kv_pool *pool, uint32_t i_group, uint32_t block)
{
    free_stack(pool, i_group)[pool->n_free[i_group]++] = block;
}

void kv_pool_forget(struct kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        while (pool->prefix.idle[g].n > 0)
            push_free(pool, g, kv_prefix_evict(&pool->prefix, g));
    for (uint32_t i = 0; i < pool->n_blocks && pool->prefix.n_named > 0; i++)
        if (kv_prefix_has(&pool->prefix, i))
            kv_prefix_remove(&pool->prefix, i);
    pool->epoch++;
}

uint32_t kv_block_take(struct kv_pool *pool, uint32_t i_group)
{
    uint32_t block;

    assert(kv_pool_group_free(pool, i_group) > 0);
    if (pool->n_free[i_group] > 0)
        block = free_stack(pool, i_group)[--pool->n_free[i_group]];
    else
        block = kv_prefix_evict(&pool->prefix, i_group);
    assert(pool->refs[block] == 0);
    pool->refs[block] = 1;
    return block;
}

void kv_block_ref(struct kv_pool *pool, uint32_t block)
{
    assert(pool->refs[block] < UINT32_MAX);
    if (pool->refs[block]++ == 0)
        kv_prefix_wake(&pool->prefix, block);
}

void kv_block_unref(struct kv_pool *pool, uint32_t block)
{
    assert(pool->refs[block] > 0);
    if (--pool->refs[block] > 0)
        return;
    if (kv_prefix_has(&pool->prefix, block))
        kv_prefix_rest(&pool->prefix, block);
    else
        push_free(pool, kv_prefix_group(&pool->prefix, block), block);
}

uint32_t kv_block_take_copy(struct kv_pool *pool, uint32_t block)
{
    const uint32_t copy = kv_block_take(pool, kv_prefix_group(&pool->prefix, block));

    pool->backend->ops->kv_copy(pool->backend, pool->store, copy, block);
    kv_block_unref(pool, block);
    return copy;
}

uint32_t kv_pool_main_group(const struct kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        if (kv_pool_rule(pool, g) == STATE_FULL)
            return g;
    return 0;
}

bool kv_pool_has_rule(const struct kv_pool *pool, enum state_rule rule)
{
    for (uint32_t g = 0; g < pool->layout.n_groups; g++)
        if (kv_pool_rule(pool, g) == rule)
            return true;
    return false;
}
