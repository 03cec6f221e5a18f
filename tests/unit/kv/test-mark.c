/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests pools with several groups of state: which blocks a table holds, and where computing can be
 * resumed.
 */
#include "store.h"

#include "kv/block.h"
#include "lib/test.h"

enum { FULL, WINDOW, STATE, MAX_TOKENS = 40 };

static const struct kv_name root = {{1, 2, 3}};
static int32_t tokens[MAX_TOKENS];
static struct kv_name names[MAX_TOKENS / BLOCK];

/* Makes a pool with 10 FULL blocks, 6 blocks of a window of 6 tokens, and 4 states. */
static struct kv_pool *hybrid_make(void)
{
    struct kv_layout layout = store_layout(10);
    struct kv_pool *pool;

    layout.n_groups = 3;
    layout.groups[WINDOW] = layout.groups[FULL];
    layout.groups[WINDOW].rule = STATE_WINDOW;
    layout.groups[WINDOW].window = 6;
    layout.groups[STATE] = (struct state_group){.rule = STATE_RECURRENT, .n_layers = 1};
    layout.n_blocks[WINDOW] = 6;
    layout.n_blocks[STATE] = 4;
    ASSERT_OK(kv_pool_new(&store_device, &layout, &pool));
    for (int32_t i = 0; i < MAX_TOKENS; i++)
        tokens[i] = i;
    kv_name_blocks(&root, tokens, BLOCK, MAX_TOKENS / BLOCK, names);
    return pool;
}

static void assert_free(const struct kv_pool *pool, uint32_t full, uint32_t window, uint32_t state)
{
    assert_int_equal(kv_pool_group_free(pool, FULL), full);
    assert_int_equal(kv_pool_group_free(pool, WINDOW), window);
    assert_int_equal(kv_pool_group_free(pool, STATE), state);
    assert_int_equal(kv_pool_n_free(pool), full + window + state);
}

/* Computes the tokens up to @end in steps of one block. */
static void compute(struct kv_table *t, uint32_t end)
{
    uint32_t pos = t->n_tokens;

    ASSERT_OK(kv_table_reserve(t, end - pos));
    while (pos < end) {
        const uint32_t n = MIN(end - pos, BLOCK - pos % BLOCK);
        const struct batch_seq seq = kv_table_part(t, 0, pos, n);

        assert_int_equal(kv_table_open(t, pos, n), n);
        assert_true(seq.blocks[WINDOW][pos / BLOCK] >= 10);
        pos += n;
        kv_table_name(t, names, pos / BLOCK);
    }
}

TEST(a_table_holds_what_later_rows_see)
{
    struct kv_pool *pool = hybrid_make();
    struct kv_table t;

    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_reserve(&t, 38));
    assert_free(pool, 0, 6, 3);
    /* 24 tokens fit into 6 blocks. The row at 8 sees the first block, and the row at 9 does not. */
    assert_int_equal(kv_table_open(&t, 0, 38), 24);
    assert_free(pool, 0, 0, 3);
    assert_int_equal(kv_table_open(&t, 8, 24), 24 - 8);
    assert_int_equal(kv_table_open(&t, 9, 24), 24 - 9 + BLOCK);
    assert_int_equal(t.begin[WINDOW], 1);
    assert_int_equal(t.blocks[WINDOW][0], KV_NO_BLOCK);
    assert_int_equal(kv_table_open(&t, 32, 6), 6);
    assert_int_equal(t.begin[WINDOW], 6);
    assert_int_equal(t.end[WINDOW], 10);
    assert_free(pool, 0, 2, 3);
    kv_table_done(&t);
    assert_free(pool, 10, 6, 4);
    kv_pool_free(pool);
}

TEST(computing_is_resumed_where_all_groups_have_their_blocks)
{
    struct kv_pool *pool = hybrid_make();
    struct kv_table t, u;

    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_init(&u, pool, MAX_TOKENS));
    compute(&t, 12);
    assert_int_equal(kv_pool_n_known(pool, names, 10), 3);
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 39), 0);
    put(&t, 0, 5);
    the_store.cells[t.blocks[STATE][0]][0] = 77;
    assert_true(kv_table_snapshot(&t, names, 3));
    assert_true(kv_table_snapshot(&t, names, 3));
    assert_free(pool, 7, 3, 3);
    assert_int_equal(kv_pool_group_idle(pool, STATE), 1);
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 39), 12);
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 11), 0);
    the_store.cells[t.blocks[STATE][0]][0] = 78;

    ASSERT_OK(kv_table_adopt(&u, names, 12));
    assert_int_equal(the_store.cells[u.blocks[STATE][0]][0], 77);
    assert_int_equal(u.begin[WINDOW], 1);
    assert_free(pool, 7, 3, 2);
    kv_table_truncate(&u, 0);

    /* The window of the next row moves on, and its first block is evicted. */
    compute(&t, 36);
    assert_int_equal(kv_pool_n_known(pool, names, 10), 9);
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 39), 0);
    assert_true(kv_table_snapshot(&t, names, 9));
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 39), 36);
    kv_pool_drop_snapshot(pool, &names[8]);
    assert_int_equal(kv_pool_n_usable(pool, names, 10, 39), 0);
    kv_pool_forget(pool);
    assert_false(kv_table_snapshot(&t, names, 9));
    kv_table_done(&t);
    kv_table_done(&u);
    assert_free(pool, 10, 6, 4);
    kv_pool_free(pool);
}

/* Makes a pool whose last group keeps only the first block. */
static struct kv_pool *first_make(void)
{
    struct kv_layout layout = store_layout(10);
    struct kv_pool *pool;

    layout.n_groups = 2;
    layout.groups[1] = layout.groups[FULL];
    layout.groups[1].rule = STATE_WINDOW;
    layout.groups[1].window = 1;
    layout.groups[1].first_only = true;
    layout.n_blocks[1] = 3;
    ASSERT_OK(kv_pool_new(&store_device, &layout, &pool));
    for (int32_t i = 0; i < MAX_TOKENS; i++)
        tokens[i] = i;
    kv_name_blocks(&root, tokens, BLOCK, MAX_TOKENS / BLOCK, names);
    return pool;
}

TEST(a_group_of_the_first_block_keeps_only_this_block)
{
    struct kv_pool *pool = first_make();
    struct kv_table t, u;

    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_init(&u, pool, MAX_TOKENS));
    ASSERT_OK(kv_table_extend(&t, 18));
    assert_int_equal(kv_pool_group_free(pool, 1), 2);
    assert_int_equal(kv_table_open(&t, 16, 2), 2);
    assert_int_equal(t.begin[1], 0);
    assert_int_equal(t.end[1], 1);
    kv_table_name(&t, names, 4);
    assert_int_equal(kv_pool_n_usable(pool, names, 4, 18), 16);

    ASSERT_OK(kv_table_adopt(&u, names, 16));
    assert_int_equal(u.blocks[1][0], t.blocks[1][0]);
    assert_int_equal(u.end[1], 1);
    ASSERT_OK(kv_table_extend(&u, 9));
    assert_int_equal(u.end[1], 1);
    assert_int_equal(kv_pool_group_free(pool, 1), 2);
    kv_table_truncate(&u, 0);
    assert_true(kv_table_can_share(&t, 18));
    kv_table_share(&u, &t, 18);
    assert_int_equal(u.blocks[1][0], t.blocks[1][0]);
    ASSERT_OK(kv_table_jump(&u, 16));
    assert_int_equal(u.end[1], 1);
    assert_int_not_equal(u.blocks[1][0], t.blocks[1][0]);
    kv_table_done(&u);

    /* Without the first block, no row can be computed. */
    kv_table_done(&t);
    assert_int_equal(kv_pool_group_free(pool, 1), 3);
    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    for (uint32_t i = 0; i < 3; i++)
        kv_block_take(pool, 1);
    for (uint32_t i = 10; i < 13; i++)
        kv_block_unref(pool, i);
    assert_int_equal(kv_pool_n_known(pool, names, 4), 4);
    assert_int_equal(kv_pool_n_usable(pool, names, 4, 18), 0);
    kv_table_done(&t);
    kv_pool_free(pool);
}

TEST(snapshots_give_way_to_states)
{
    struct kv_pool *pool = hybrid_make();
    struct kv_table t, u[3];

    ASSERT_OK(kv_table_init(&t, pool, MAX_TOKENS));
    compute(&t, 4);
    assert_true(kv_table_snapshot(&t, names, 1));
    for (uint32_t i = 0; i < 3; i++)
        ASSERT_OK(kv_table_init(&u[i], pool, MAX_TOKENS));
    for (uint32_t i = 0; i < 2; i++)
        ASSERT_OK(kv_table_adopt(&u[i], names, 4));
    /* The last free block is the snapshot itself. */
    assert_free(pool, 9, 5, 1);
    assert_int_equal(kv_table_adopt(&u[2], names, 4), KV_FULL);
    assert_int_equal(u[2].n_tokens, 0);
    assert_int_equal(kv_pool_n_usable(pool, names, 1, 4), 4);
    ASSERT_OK(kv_table_reserve(&u[2], 4));
    assert_int_equal(kv_pool_n_usable(pool, names, 1, 4), 0);
    assert_false(kv_table_snapshot(&t, names, 1));
    assert_int_equal(kv_table_reserve(&t, 0), 0);
    kv_table_done(&t);
    for (uint32_t i = 0; i < 3; i++)
        kv_table_done(&u[i]);
    assert_free(pool, 10, 6, 4);
    kv_pool_free(pool);
}

RUN_TESTS(cmocka_unit_test(a_table_holds_what_later_rows_see),
          cmocka_unit_test(computing_is_resumed_where_all_groups_have_their_blocks),
          cmocka_unit_test(a_group_of_the_first_block_keeps_only_this_block),
          cmocka_unit_test(snapshots_give_way_to_states))
