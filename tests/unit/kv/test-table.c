/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests pools and tables of KV blocks, with a device whose blocks are arrays of token numbers.
 */
#include "store.h"

#include "core/rng.h"
#include "lib/test.h"

enum { N_TABLES = 6, MAX_TOKENS = 40 };

TEST(tables_take_and_give_back_blocks)
{
    struct kv_pool *pool = pool_make(3);
    struct kv_table t;

    assert_int_equal(kv_pool_n_blocks(pool), 3);
    assert_int_equal(kv_pool_block_tokens(pool), BLOCK);
    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    assert_int_equal(kv_table_need(&t, 0, 5), 2);
    assert_int_equal(kv_table_extend(&t, 5), 0);
    assert_int_equal(kv_pool_n_free(pool), 1);
    assert_int_equal(kv_table_need(&t, 0, 3), 0);
    assert_int_equal(kv_table_extend(&t, 3), 0);
    assert_int_equal(kv_table_extend(&t, 5), KV_FULL);
    assert_int_equal(t.n_tokens, 8);
    assert_int_equal(kv_pool_n_free(pool), 1);
    kv_table_truncate(&t, 4);
    assert_int_equal(kv_pool_n_free(pool), 2);
    kv_table_done(&t);
    assert_int_equal(kv_pool_n_free(pool), 3);
    kv_pool_free(pool);
}

TEST(a_shared_open_block_is_copied_before_it_is_written)
{
    struct kv_pool *pool = pool_make(4);
    struct kv_table a, b;

    ASSERT_OK(kv_table_init(&a, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_init(&b, pool, MAX_TOKENS));
    assert_int_equal(kv_table_extend(&a, 6), 0);
    for (uint32_t i = 0; i < 6; i++)
        put(&a, i, 100 + i);
    kv_table_share(&b, &a, 6);
    assert_int_equal(kv_pool_n_free(pool), 2);
    assert_int_equal(kv_table_need(&b, 0, 1), 1);
    assert_int_equal(kv_table_extend(&b, 1), 0);
    put(&b, 6, 7);
    assert_int_equal(the_store.n_copies, 1);
    assert_int_equal(a.blocks[0][0], b.blocks[0][0]);
    assert_int_not_equal(a.blocks[0][1], b.blocks[0][1]);
    /* The first table is again the only user of its block. */
    assert_int_equal(kv_table_need(&a, 0, 1), 0);
    assert_int_equal(kv_table_extend(&a, 1), 0);
    put(&a, 6, 8);
    assert_int_equal(get(&b, 5), 105);
    assert_int_equal(get(&b, 6), 7);
    assert_int_equal(get(&a, 6), 8);
    kv_table_done(&a);
    kv_table_done(&b);
    assert_int_equal(kv_pool_n_free(pool), 4);
    kv_pool_free(pool);
}

TEST(extending_is_all_or_nothing)
{
    struct kv_pool *pool = pool_make(2);
    struct kv_table a, b;

    ASSERT_OK(kv_table_init(&a, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_init(&b, pool, MAX_TOKENS));
    assert_int_equal(kv_table_extend(&a, 2), 0);
    kv_table_share(&b, &a, 2);
    /* Extending the table needs a copy and one more block, but only one block is free. */
    assert_int_equal(kv_table_need(&b, 0, 4), 2);
    assert_int_equal(kv_table_extend(&b, 4), KV_FULL);
    assert_int_equal(the_store.n_copies, 0);
    assert_int_equal(b.blocks[0][0], a.blocks[0][0]);
    assert_int_equal(b.n_tokens, 2);
    assert_int_equal(kv_table_extend(&b, 2), 0);
    kv_table_done(&b);
    kv_table_done(&a);
    kv_pool_free(pool);
}

TEST(failures_leave_nothing_behind)
{
    const struct kv_layout layout = store_layout(2);
    struct kv_pool *pool = NULL;

    store_error = -ENOMEM;
    ASSERT_ERROR(kv_pool_new(&store_device, &layout, &pool), ENOMEM);
    store_error = 0;
    assert_null(pool);
    kv_pool_free(NULL);
}

/* Struct model holds the expected contents of a table. */
struct model {
    uint32_t n, values[MAX_TOKENS];
};

static void check_all(struct kv_pool *pool, const struct kv_table *tables,
                      const struct model *models)
{
    unsigned refs[N_BLOCKS] = {0}, n_used = 0;

    for (int i = 0; i < N_TABLES; i++) {
        assert_int_equal(tables[i].n_tokens, models[i].n);
        assert_int_equal(tables[i].n_blocks, DIV_UP(models[i].n, BLOCK));
        for (uint32_t p = 0; p < models[i].n; p++)
            assert_int_equal(get(&tables[i], p), models[i].values[p]);
        for (uint32_t j = 0; j < tables[i].n_blocks; j++)
            refs[tables[i].blocks[0][j]]++;
    }
    for (int i = 0; i < N_BLOCKS; i++)
        n_used += refs[i] > 0;
    assert_int_equal(kv_pool_n_free(pool), N_BLOCKS - n_used);
}

TEST(random_use_matches_a_model)
{
    struct kv_pool *pool = pool_make(N_BLOCKS);
    struct kv_table t[N_TABLES];
    struct model m[N_TABLES] = {0};
    uint32_t stamp = 1;
    unsigned n_full = 0;
    struct rng rng;

    rng_seed(&rng, 3);
    for (int i = 0; i < N_TABLES; i++)
        ASSERT_OK(kv_table_init(&t[i], pool, MAX_TOKENS));
    for (int round = 0; round < 20000; round++) {
        const uint32_t i = rng_u32(&rng) % N_TABLES, j = rng_u32(&rng) % N_TABLES;
        uint32_t n = rng_u32(&rng) % 9;

        switch (rng_u32(&rng) % 6) {
        case 0:
            n = MIN(n * 5, m[i].n);
            kv_table_truncate(&t[i], n);
            m[i].n = n;
            break;
        case 1:
            if (m[i].n > 0 || i == j)
                break;
            n = MIN(n * 5, m[j].n);
            kv_table_share(&t[i], &t[j], n);
            m[i] = m[j];
            m[i].n = n;
            break;
        default: {
            const uint32_t need = kv_table_need(&t[i], 0, n), n_free = kv_pool_n_free(pool);

            if (m[i].n + n > MAX_TOKENS)
                break;
            if (kv_table_extend(&t[i], n) == KV_FULL) {
                assert_true(need > n_free);
                n_full++;
                break;
            }
            assert_int_equal(kv_pool_n_free(pool), n_free - need);
            for (; n > 0; n--) {
                put(&t[i], m[i].n, stamp);
                m[i].values[m[i].n++] = stamp++;
            }
        }
        }
        check_all(pool, t, m);
    }
    assert_true(n_full > 0);
    for (int i = 0; i < N_TABLES; i++)
        kv_table_done(&t[i]);
    kv_pool_free(pool);
}

TEST(only_free_blocks_rest)
{
    struct kv_pool *pool = pool_make(N_BLOCKS);
    struct kv_table a, b;

    ASSERT_OK(kv_table_init(&a, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_init(&b, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_extend(&a, 2 * BLOCK));
    ASSERT_OK(kv_table_extend(&b, BLOCK));
    put(&a, BLOCK, 5);
    put(&b, 0, 6);
    kv_pool_rest(pool);
    assert_int_equal(the_store.n_drops, 1);
    assert_int_equal(get(&a, BLOCK), 5);
    assert_int_equal(get(&b, 0), 6);

    /* Two more ranges are dropped: a gap, and the free blocks at the end. */
    kv_table_truncate(&a, 0);
    kv_pool_rest(pool);
    assert_int_equal(the_store.n_drops, 3);
    assert_int_equal(get(&b, 0), 6);
    kv_table_done(&b);
    kv_pool_rest(pool);
    assert_int_equal(the_store.n_drops, 4);
    kv_table_done(&a);
    kv_pool_free(pool);
}

RUN_TESTS(cmocka_unit_test(tables_take_and_give_back_blocks),
          cmocka_unit_test(a_shared_open_block_is_copied_before_it_is_written),
          cmocka_unit_test(extending_is_all_or_nothing),
          cmocka_unit_test(failures_leave_nothing_behind), cmocka_unit_test(only_free_blocks_rest),
          cmocka_unit_test(random_use_matches_a_model))
