/* SPDX-License-Identifier: Apache-2.0 */
#include "core/index.h"

#include "lib/test.h"

static uint32_t hash_of(uint32_t key)
{
    return key % 997 * 0x9e3779b9u; /* many keys share a hash */
}

static bool find(const struct index *ix, const uint32_t *keys, uint32_t key, uint32_t *ret_at)
{
    uint32_t value;

    *ret_at = index_start(ix, hash_of(key));
    for (; index_match(ix, hash_of(key), ret_at, &value); ++*ret_at)
        if (keys[value] == key)
            return true;
    return false;
}

TEST(keys_with_equal_hashes_are_distinguished_while_an_index_grows)
{
    enum { N = 5000 };
    static uint32_t keys[N];
    struct index ix = {0};
    uint32_t at = 0;

    assert_false(find(&ix, keys, 1, &at));
    for (uint32_t i = 0; i < N; i++) {
        keys[i] = 7 * i;
        assert_int_equal(index_reserve(&ix, ix.n + 1), 0);
        assert_false(find(&ix, keys, keys[i], &at));
        index_put(&ix, at, hash_of(keys[i]), i);
    }
    assert_int_equal(ix.n, N);
    for (uint32_t i = 0; i < N; i++)
        assert_true(find(&ix, keys, keys[i], &at));
    assert_false(find(&ix, keys, 1, &at));

    /* A value may be replaced in place. */
    assert_true(find(&ix, keys, keys[17], &at));
    index_put(&ix, at, hash_of(keys[17]), 18);
    assert_int_equal(ix.n, N);
    assert_false(find(&ix, keys, keys[17], &at));
    index_done(&ix);
}

TEST(too_many_are_refused)
{
    struct index ix = {0};

    assert_int_equal(index_reserve(&ix, SIZE_MAX), -ENOMEM);
    assert_int_equal(ix.cap, 0);
    index_done(&ix);
}

RUN_TESTS(cmocka_unit_test(keys_with_equal_hashes_are_distinguished_while_an_index_grows),
          cmocka_unit_test(too_many_are_refused))
