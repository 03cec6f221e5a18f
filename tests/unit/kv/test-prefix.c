/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how the names of blocks are computed, which requests find a block by its name, and which
 * block is evicted.
 */
#include "store.h"

#include "core/rng.h"
#include "kv/block.h"
#include "lib/test.h"

enum { N_TABLES = 6, MAX_TOKENS = 40, MAX_NAMES = MAX_TOKENS / BLOCK };

static const struct kv_name root = {{1, 2, 3}};

/* Struct chain holds a sequence: its tokens, the names of its blocks, and its table. */
struct chain {
    int32_t tokens[MAX_TOKENS];
    uint32_t n;
    struct kv_name names[MAX_NAMES];
    struct kv_table table;
};

static void chain_init(struct chain *c, struct kv_pool *pool)
{
    *c = (struct chain){0};
    ASSERT_OK(kv_table_init(&c->table, pool, MAX_TOKENS));
}

/* Makes @text the tokens of @c. Known blocks are shared, and other blocks are computed. Returns the
 * number of known blocks. */
static uint32_t say(struct chain *c, const char *text)
{
    uint32_t n_known;

    c->n = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < c->n; i++)
        c->tokens[i] = text[i];
    kv_name_blocks(&root, c->tokens, BLOCK, c->n / BLOCK, c->names);
    n_known = kv_pool_n_known(c->table.pool, c->names, c->n / BLOCK);
    for (uint32_t i = 0; i < c->n / BLOCK; i++)
        assert_int_equal(kv_prefix_find(&c->table.pool->prefix, &c->names[i], 0) != KV_NO_BLOCK,
                         i < n_known);
    ASSERT_OK(kv_table_adopt(&c->table, c->names, n_known * BLOCK));
    assert_int_equal(kv_table_extend(&c->table, c->n - n_known * BLOCK), 0);
    for (uint32_t i = 0; i < c->n; i++) {
        if (i >= n_known * BLOCK)
            put(&c->table, i, (uint32_t)c->tokens[i]);
        assert_int_equal(get(&c->table, i), c->tokens[i]);
    }
    kv_table_name(&c->table, c->names, c->n / BLOCK);
    return n_known;
}

static void end(struct chain *c)
{
    kv_table_truncate(&c->table, 0);
}

static uint32_t known(struct kv_pool *pool, const char *text)
{
    int32_t tokens[MAX_TOKENS];
    struct kv_name names[MAX_NAMES];
    const uint32_t n = (uint32_t)strlen(text) / BLOCK;

    for (uint32_t i = 0; i < n * BLOCK; i++)
        tokens[i] = text[i];
    kv_name_blocks(&root, tokens, BLOCK, n, names);
    return kv_pool_n_known(pool, names, n);
}

static void assert_name(const struct kv_name *name, const char *hex)
{
    char text[2 * SHA256_BYTES + 1];

    for (unsigned i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", name->bytes[i]);
    ASSERT_STREQ(text, hex);
}

/* Other processes and machines must compute the same names. The expected names come from another
 * implementation: python3 tests/unit/kv/names.py */
TEST(names_have_their_defined_values)
{
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 151643};
    const struct kv_origin origin = {
        .model = {{7}}, .numbers = "f16", .device = "cpu", .isa = "avx2", .block_tokens = 4};
    struct kv_name name, top, names[2];

    kv_name_origin(&origin, &name);
    assert_name(&name, "3ebf8837617557200feeb871eb9c2424e903f1ea541ba11ef444882c8f6ec736");
    kv_name_root(&name, "uid 1000", "pepper", 6, &top);
    assert_name(&top, "5d833a7aa4d88c186b7225295c74dc2e5126b2be503b9090315205e938103aa6");
    kv_name_blocks(&top, tokens, 4, 2, names);
    assert_name(&names[0], "34607a3cc733fa28a6db2779c7a08f81e055257c26bfe4d5e21cdeb0fc8d1747");
    assert_name(&names[1], "7ad990471de9f76575be2a279f5780db8c4b61e4990b8dcdc5d95feb2c8ce322");
    kv_name_root(&name, NULL, NULL, 0, &top);
    assert_name(&top, "9a9875ead7b9fd4ac62c36203def8de084dc56c24fc684cafe4e8cef951b5e0a");
    kv_name_group(&names[1], 0, &name);
    assert_true(kv_name_equal(&name, &names[1]));
    kv_name_group(&names[1], 2, &name);
    assert_name(&name, "7d988e085ea28ea503d8030ddb1092ccfdbb1da530b396b01c5bd0d8d3671920");
}

TEST(names_depend_on_all_their_inputs)
{
    struct kv_origin origin = {.numbers = "f16", .device = "cpu", .isa = "ref", .block_tokens = 64};
    struct kv_name names[9];
    unsigned n = 0;

    kv_name_origin(&origin, &names[n++]);
    origin.model.bytes[31] = 1;
    kv_name_origin(&origin, &names[n++]);
    origin.numbers = "bf16";
    kv_name_origin(&origin, &names[n++]);
    origin.isa = "avx2";
    kv_name_origin(&origin, &names[n++]);
    origin.block_tokens = 32;
    kv_name_origin(&origin, &names[n++]);
    kv_name_root(&names[0], "ab", "c", 1, &names[n++]);
    kv_name_root(&names[0], "a", "bc", 2, &names[n++]);
    kv_name_root(&names[0], "a", "bc\0", 3, &names[n++]);
    kv_name_root(&names[1], "a", "bc", 2, &names[n++]);
    assert_int_equal(n, ARRAY_SIZE(names));
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < i; k++)
            assert_false(kv_name_equal(&names[i], &names[k]));
}

TEST(blocks_are_found_while_they_are_used_and_after)
{
    struct kv_pool *pool = pool_make(8);
    struct chain a, b;

    chain_init(&a, pool);
    chain_init(&b, pool);
    assert_int_equal(say(&a, "abcdefghij"), 0);
    assert_int_equal(say(&b, "abcdefghkl"), 2);
    assert_int_equal(a.table.blocks[0][1], b.table.blocks[0][1]);
    assert_int_not_equal(a.table.blocks[0][2], b.table.blocks[0][2]);
    assert_int_equal(kv_pool_n_free(pool), 4);
    end(&a);
    end(&b);
    assert_int_equal(kv_pool_n_free(pool), 8);
    assert_int_equal(kv_pool_n_idle(pool), 2);
    /* A block with different tokens before it is a different block. */
    assert_int_equal(known(pool, "efgh"), 0);
    assert_int_equal(say(&a, "abcdefgh"), 2);
    assert_int_equal(kv_pool_n_idle(pool), 0);
    assert_int_equal(kv_pool_n_free(pool), 6);
    kv_table_done(&a.table);
    kv_table_done(&b.table);
    kv_pool_free(pool);
}

TEST(the_oldest_blocks_are_evicted_first_and_ends_before_beginnings)
{
    struct kv_pool *pool = pool_make(6);
    struct chain a, b, c;

    chain_init(&a, pool);
    chain_init(&b, pool);
    chain_init(&c, pool);
    say(&a, "aaaabbbbcccc");
    say(&b, "aaaadddd");
    end(&a);
    end(&b);
    assert_int_equal(kv_pool_n_idle(pool), 4);
    /* The new blocks replace the two blocks without a name, and then the last block of the sequence
     * that ended first. */
    say(&c, "eeeeffffgggg");
    assert_int_equal(known(pool, "aaaabbbbcccc"), 2);
    assert_int_equal(known(pool, "aaaadddd"), 2);
    end(&c);
    say(&a, "hhhh");
    assert_int_equal(known(pool, "aaaabbbb"), 1);
    assert_int_equal(known(pool, "aaaadddd"), 2);
    say(&b, "iiiijjjj");
    assert_int_equal(known(pool, "aaaa"), 0);
    assert_int_equal(known(pool, "eeeeffffgggg"), 3);
    kv_table_done(&a.table);
    kv_table_done(&b.table);
    kv_table_done(&c.table);
    kv_pool_free(pool);
}

/* The whole prompt is known, but its last token is computed again. */
TEST(a_named_block_is_copied_before_it_is_written)
{
    struct kv_pool *pool = pool_make(3);
    struct chain a;

    chain_init(&a, pool);
    say(&a, "abcdefgh");
    end(&a);
    ASSERT_OK(kv_table_adopt(&a.table, a.names, 7));
    assert_int_equal(a.table.n_named, 1);
    assert_int_equal(kv_table_need(&a.table, 0, 1), 1);
    assert_int_equal(kv_table_extend(&a.table, 1), 0);
    assert_int_equal(the_store.n_copies, 1);
    put(&a.table, 7, 'h');
    assert_int_equal(get(&a.table, 6), 'g');
    assert_int_equal(kv_pool_n_free(pool), 1);
    /* The new block of the table gets the name of a known block, and is replaced by that block. */
    kv_table_name(&a.table, a.names, 2);
    assert_int_equal(kv_pool_n_free(pool), 1);
    assert_int_equal(kv_pool_n_idle(pool), 0);
    kv_table_truncate(&a.table, 6);
    assert_int_equal(a.table.n_named, 1);
    assert_int_equal(kv_table_extend(&a.table, 1), 0);
    put(&a.table, 6, 'x');
    assert_int_equal(known(pool, "abcdefgh"), 2);
    kv_table_truncate(&a.table, 0);
    assert_int_equal(say(&a, "abcdefgh"), 2);
    kv_table_done(&a.table);
    kv_pool_free(pool);
}

TEST(the_first_of_two_blocks_with_equal_names_is_kept)
{
    struct kv_pool *pool = pool_make(8);
    struct chain a, b;

    chain_init(&a, pool);
    chain_init(&b, pool);
    say(&a, "abcdefgh");
    kv_name_blocks(&root, a.tokens, BLOCK, 2, b.names);
    assert_int_equal(kv_table_extend(&b.table, 8), 0);
    for (uint32_t i = 0; i < 8; i++)
        put(&b.table, i, (uint32_t)a.tokens[i]);
    assert_int_equal(kv_pool_n_free(pool), 4);
    kv_table_name(&b.table, b.names, 2);
    assert_int_equal(kv_pool_n_free(pool), 6);
    assert_memory_equal(a.table.blocks[0], b.table.blocks[0], 2 * sizeof(uint32_t));
    kv_table_done(&a.table);
    kv_table_done(&b.table);
    assert_int_equal(kv_pool_n_idle(pool), 2);
    kv_pool_free(pool);
}

TEST(forgotten_blocks_are_not_found_and_not_named_again)
{
    struct kv_pool *pool = pool_make(8);
    struct chain a, b;

    chain_init(&a, pool);
    chain_init(&b, pool);
    say(&a, "abcdefgh");
    say(&b, "ijkl");
    end(&b);
    kv_pool_forget(pool);
    assert_int_equal(known(pool, "abcdefgh") + known(pool, "ijkl"), 0);
    assert_int_equal(kv_pool_n_idle(pool), 0);
    assert_int_equal(kv_pool_n_free(pool), 6);
    /* A table that is older than kv_pool_forget() continues without names. */
    assert_false(kv_table_is_current(&a.table));
    assert_int_equal(kv_table_extend(&a.table, 4), 0);
    kv_table_name(&a.table, a.names, 3);
    assert_int_equal(known(pool, "abcd"), 0);
    end(&a);
    assert_int_equal(kv_pool_n_free(pool), 8);
    assert_int_equal(say(&a, "abcdefgh"), 0);
    assert_int_equal(known(pool, "abcdefgh"), 2);
    kv_table_done(&a.table);
    kv_table_done(&b.table);
    kv_pool_free(pool);
}

TEST(idle_blocks_keep_their_memory)
{
    struct kv_pool *pool = pool_make(N_BLOCKS);
    struct chain a;

    chain_init(&a, pool);
    say(&a, "abcdefghij");
    end(&a);
    kv_pool_rest(pool);
    assert_int_equal(the_store.n_drops, 1);
    assert_int_equal(say(&a, "abcdefghij"), 2);
    kv_table_done(&a.table);
    kv_pool_free(pool);
}

/* Prompts consist of two different words, so that prefixes repeat, and there are few blocks. say()
 * checks contents. */
TEST(random_chains_hold_their_tokens)
{
    struct kv_pool *pool = pool_make(N_BLOCKS);
    static struct chain chains[N_TABLES];
    unsigned n_known = 0;
    struct rng rng;

    rng_seed(&rng, 4);
    for (unsigned i = 0; i < N_TABLES; i++)
        chain_init(&chains[i], pool);
    for (unsigned round = 0; round < 30000; round++) {
        struct chain *c = &chains[rng_u32(&rng) % N_TABLES];
        char text[MAX_TOKENS + 1] = "";
        uint32_t n_used = 0;

        end(c);
        for (unsigned i = rng_u32(&rng) % 9; i > 0; i--)
            strcat(text, rng_u32(&rng) % 3 ? "abcd" : "efgh");
        strcat(text, (const char *[]){"", "x", "xy"}[rng_u32(&rng) % 3]);
        if (rng_u32(&rng) % 500 == 0)
            kv_pool_forget(pool);
        if (DIV_UP(strlen(text), BLOCK) > kv_pool_n_free(pool))
            continue;
        n_known += say(c, text);
        for (uint32_t i = 0; i < N_BLOCKS; i++)
            n_used += pool->refs[i] > 0;
        assert_int_equal(kv_pool_n_free(pool), N_BLOCKS - n_used);
    }
    assert_true(n_known > 10000);
    for (unsigned i = 0; i < N_TABLES; i++)
        kv_table_done(&chains[i].table);
    assert_int_equal(kv_pool_n_free(pool), N_BLOCKS);
    kv_pool_free(pool);
}

RUN_TESTS(cmocka_unit_test(names_have_their_defined_values),
          cmocka_unit_test(names_depend_on_all_their_inputs),
          cmocka_unit_test(blocks_are_found_while_they_are_used_and_after),
          cmocka_unit_test(the_oldest_blocks_are_evicted_first_and_ends_before_beginnings),
          cmocka_unit_test(a_named_block_is_copied_before_it_is_written),
          cmocka_unit_test(the_first_of_two_blocks_with_equal_names_is_kept),
          cmocka_unit_test(forgotten_blocks_are_not_found_and_not_named_again),
          cmocka_unit_test(idle_blocks_keep_their_memory),
          cmocka_unit_test(random_chains_hold_their_tokens))
