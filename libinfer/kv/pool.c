/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of KV blocks
 *
 * Owned by the engine thread. The bytes of the blocks are the backend's; here are only their
 * numbers and counts. Free blocks form a stack, so that blocks that were used last are used next
 * and a lightly loaded pool touches little memory. Invariant: a block is on the stack if and only
 * if its count is 0.
 */
#include "kv/block.h"

#include <errno.h>

int kv_pool_new(struct backend *backend, const struct kv_layout *layout, uint32_t n_blocks,
                struct kv_pool **ret_pool)
{
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

    r = backend->ops->kv_new(backend, layout, n_blocks, &pool->store);
    if (r < 0)
        return r;

    for (uint32_t i = 0; i < n_blocks; i++)
        pool->free_blocks[i] = n_blocks - 1 - i;
    pool->n_free = n_blocks;
    *ret_pool = STEAL(pool);
    return 0;
}

struct kv_pool *kv_pool_free(struct kv_pool *pool)
{
    if (!pool)
        return NULL;
    assert(!pool->store || pool->n_free == pool->n_blocks);
    if (pool->store)
        pool->backend->ops->kv_free(pool->backend, pool->store);
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

uint32_t kv_pool_n_free(const struct kv_pool *pool)
{
    return pool->n_free;
}

uint32_t kv_pool_block_tokens(const struct kv_pool *pool)
{
    return pool->layout.block_tokens;
}

void kv_pool_rest(struct kv_pool *pool)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i <= pool->n_blocks; i++) {
        if (i < pool->n_blocks && pool->refs[i] == 0)
            continue;
        if (i > first)
            pool->backend->ops->kv_drop(pool->backend, pool->store, first, i - first);
        first = i + 1;
    }
}

uint32_t kv_block_take(struct kv_pool *pool)
{
    uint32_t block;

    assert(pool->n_free > 0);
    block = pool->free_blocks[--pool->n_free];
    assert(pool->refs[block] == 0);
    pool->refs[block] = 1;
    return block;
}

void kv_block_ref(struct kv_pool *pool, uint32_t block)
{
    assert(pool->refs[block] > 0 && pool->refs[block] < UINT32_MAX);
    pool->refs[block]++;
}

void kv_block_unref(struct kv_pool *pool, uint32_t block)
{
    assert(pool->refs[block] > 0);
    if (--pool->refs[block] == 0)
        pool->free_blocks[pool->n_free++] = block;
}

uint32_t kv_block_take_copy(struct kv_pool *pool, uint32_t block)
{
    const uint32_t copy = kv_block_take(pool);

    assert(pool->refs[block] > 1);
    pool->backend->ops->kv_copy(pool->backend, pool->store, copy, block);
    pool->refs[block]--;
    return copy;
}
