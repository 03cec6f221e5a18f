/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rank-rules.h"

#include "lib/test.h"

#define CAPACITY 1000

static struct cache_policy *new_policy(const void *saved, size_t size)
{
    struct cache_policy *p = NULL;

    ASSERT_OK(cache_policy_new(CAPACITY, saved, size, &p));
    return p;
}

/* Puts a chain of @n blocks with the names @name, @name + 1 and so on; returns the rank of the last
 * block. */
static uint64_t put_chain(struct cache_policy *p, uint64_t *seq, uint64_t name, uint32_t n)
{
    uint64_t rank = 0;

    for (uint32_t i = 0; i < n; i++)
        rank = cache_policy_rank(p, &(struct cache_policy_use){
                                        .seq = ++*seq,
                                        .name = name + i,
                                        .index = i,
                                        .length = n,
                                    });
    return rank;
}

TEST(ranks_rise_with_uses_and_never_fall)
{
    struct cache_policy *p = new_policy(NULL, 0);
    struct cache_policy_use use = {.seq = 1, .name = 7, .length = 1};
    const uint64_t put = cache_policy_rank(p, &use);
    uint64_t rank = put;

    use.kept = true;
    for (int i = 0; i < 100; i++) {
        uint64_t now;

        use.seq += 10;
        use.rank = rank;
        now = cache_policy_rank(p, &use);
        assert_true(now > rank);
        rank = now;
    }
    use.rank = UINT64_C(1) << 62;
    assert_int_equal(cache_policy_rank(p, &use), use.rank);
    cache_policy_free(p);
}

TEST(reused_blocks_outrank_new_ones)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0;
    const uint64_t fresh = put_chain(p, &seq, 1, 1);
    const uint64_t used = cache_policy_rank(
        p, &(struct cache_policy_use){
               .seq = ++seq, .name = 1, .length = 1, .kept = true, .rank = fresh});
    const uint64_t other = put_chain(p, &seq, 2, 1);

    assert_true(used > fresh);
    assert_true(used > other);
    assert_true(cache_policy_admits(used, other));
    assert_false(cache_policy_admits(other, used));
    cache_policy_free(p);
}

TEST(evicted_blocks_are_recognized)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0, again, other;

    put_chain(p, &seq, 1, 1);
    put_chain(p, &seq, 100, 500);
    again = put_chain(p, &seq, 1, 1);
    other = put_chain(p, &seq, 2, 1);
    assert_true(again > other);
    cache_policy_free(p);
}

TEST(all_blocks_of_a_chain_have_one_rank)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0;
    const uint64_t last = put_chain(p, &seq, 1, 50);
    const uint64_t first = cache_policy_rank(
        p, &(struct cache_policy_use){.seq = ++seq, .name = 1000, .index = 50, .length = 50});

    assert_int_equal(first, last);
    cache_policy_free(p);
}

static void prompts_that_come_back(struct cache_policy *p, uint64_t *seq)
{
    for (int round = 0; round < 60; round++)
        for (uint64_t i = 0; i < 300; i++)
            put_chain(p, seq, 10 * i, 10);
}

/* 300 prompts return in turn, but the store has space for only 100 of them. Any policy that keeps
 * some of them beats LRU, which evicts each prompt before it returns. */
TEST(the_rule_follows_the_workload)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0;

    prompts_that_come_back(p, &seq);
    assert_string_not_equal(cache_policy_rule_name(p), "lru");
    cache_policy_free(p);
}

TEST(learned_state_outlives_the_process)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0, known, other;
    void *saved, *again;
    size_t size, again_size;
    char rule[32];

    prompts_that_come_back(p, &seq);
    snprintf(rule, sizeof(rule), "%s", cache_policy_rule_name(p));
    ASSERT_OK(cache_policy_save(p, &saved, &size));
    cache_policy_free(p);

    p = new_policy(saved, size);
    ASSERT_STREQ(cache_policy_rule_name(p), rule);
    ASSERT_OK(cache_policy_save(p, &again, &again_size));
    assert_int_equal(size, again_size);
    assert_memory_equal(saved, again, size);
    known = put_chain(p, &seq, 10, 1);
    other = put_chain(p, &seq, 1000000, 1);
    assert_true(known > other);
    cache_policy_free(p);
    free(saved);
    free(again);
}

TEST(invalid_saved_state_is_ignored)
{
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0;
    size_t size;
    char *saved;

    prompts_that_come_back(p, &seq);
    assert_string_not_equal(cache_policy_rule_name(p), "reused");
    ASSERT_OK(cache_policy_save(p, (void **)&saved, &size));
    cache_policy_free(p);
    /* The file starts with a magic number, the rule, the mean length and scores. */
    for (size_t i = 0; i < 48; i += 4) {
        char *bad = malloc(size);

        memcpy(bad, saved, size);
        memset(bad + i, 0xff, 4);
        memset(bad + (i < 8 ? i : (i | 4)), 0xff, 4);
        p = new_policy(bad, size);
        ASSERT_STREQ(cache_policy_rule_name(p), "reused");
        put_chain(p, &seq, 1, 10);
        cache_policy_free(p);
        free(bad);
    }
    for (size_t n = 0; n < 48; n++) {
        p = new_policy(saved, n);
        ASSERT_STREQ(cache_policy_rule_name(p), "reused");
        cache_policy_free(p);
    }
    free(saved);
}

TEST(any_size_of_store_will_do)
{
    static const uint64_t sizes[] = {0, 1, 100, 1 << 20, 10000000, UINT64_MAX};
    struct cache_policy *p = new_policy(NULL, 0);
    uint64_t seq = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        ASSERT_OK(cache_policy_resize(p, sizes[i]));
        for (uint64_t k = 0; k < 100; k++)
            assert_in_range(put_chain(p, &seq, 100 * k, 20), 1, INT64_MAX);
    }
    cache_policy_free(p);
}

/* Works like put_chain(), but the chain was requested before and is put in pieces of @pieces
 * blocks. */
static uint64_t put_pieces(struct cache_policy *p, uint64_t *seq, uint64_t name, uint32_t n,
                           uint32_t pieces)
{
    uint64_t rank = 0;

    for (uint32_t i = 0; i < n; i++)
        cache_policy_missed(p, name + i, n - i);
    for (uint32_t i = 0; i < n; i++)
        rank = cache_policy_rank(p, &(struct cache_policy_use){
                                        .seq = ++*seq,
                                        .name = name + i,
                                        .index = i,
                                        .length = i + pieces - i % pieces,
                                    });
    return rank;
}

TEST(a_requested_chain_keeps_its_length_when_put_in_pieces)
{
    struct cache_policy *whole = new_policy(NULL, 0), *parts = new_policy(NULL, 0);
    uint64_t a = 0, b = 0, name = 1;

    for (uint32_t i = 0; i < 4000; i++, name += 100) {
        const uint32_t n = i % 3 ? 4 : 60;
        /* The long chains return in turn and do not all fit into the store, so the policy tries
         * rules that consider lengths. */
        const uint64_t of = n > 4 ? UINT64_C(1) << 40 | (uint64_t)(i % 120) << 8 : name;

        assert_int_equal(put_chain(whole, &a, of, n), put_pieces(parts, &b, of, n, 2));
    }
    cache_policy_free(whole);
    cache_policy_free(parts);
}

RUN_TESTS(cmocka_unit_test(ranks_rise_with_uses_and_never_fall),
          cmocka_unit_test(reused_blocks_outrank_new_ones),
          cmocka_unit_test(evicted_blocks_are_recognized),
          cmocka_unit_test(all_blocks_of_a_chain_have_one_rank),
          cmocka_unit_test(the_rule_follows_the_workload),
          cmocka_unit_test(learned_state_outlives_the_process),
          cmocka_unit_test(invalid_saved_state_is_ignored),
          cmocka_unit_test(any_size_of_store_will_do),
          cmocka_unit_test(a_requested_chain_keeps_its_length_when_put_in_pieces))
