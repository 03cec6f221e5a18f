/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include "lib/test.h"

struct kv_store the_store;
int store_error;

static int store_new(struct backend *b UNUSED, const struct kv_layout *layout,
                     struct kv_store **ret_store)
{
    assert_int_equal(layout->block_tokens, BLOCK);
    assert_true(kv_layout_first(layout, layout->n_groups) <= N_BLOCKS);
    the_store = (struct kv_store){0};
    if (store_error == 0)
        *ret_store = &the_store;
    return store_error;
}

static void store_free(struct backend *b UNUSED, struct kv_store *store)
{
    assert_ptr_equal(store, &the_store);
}

static void store_copy(struct backend *b UNUSED, struct kv_store *store, uint32_t dst, uint32_t src)
{
    memcpy(store->cells[dst], store->cells[src], sizeof(store->cells[dst]));
    store->n_copies++;
}

static void store_drop(struct backend *b UNUSED, struct kv_store *store, uint32_t first, uint32_t n)
{
    assert_true(first + n <= N_BLOCKS);
    memset(store->cells[first], 0xff, n * sizeof(store->cells[0]));
    store->n_drops++;
}

static const struct backend_ops ops = {
    .kv_new = store_new, .kv_free = store_free, .kv_copy = store_copy, .kv_drop = store_drop};
struct backend store_device = {.ops = &ops};

struct kv_layout store_layout(uint32_t n_blocks)
{
    return kv_layout_full(1, 1, 1, BLOCK, CODEC_F32, n_blocks);
}

struct kv_pool *pool_make(uint32_t n_blocks)
{
    const struct kv_layout layout = store_layout(n_blocks);
    struct kv_pool *pool;

    ASSERT_OK(kv_pool_new(&store_device, &layout, &pool));
    return pool;
}

void put(struct kv_table *t, uint32_t pos, uint32_t value)
{
    kv_pool_store(t->pool)->cells[t->blocks[0][pos / BLOCK]][pos % BLOCK] = value;
}

uint32_t get(const struct kv_table *t, uint32_t pos)
{
    return the_store.cells[t->blocks[0][pos / BLOCK]][pos % BLOCK];
}
