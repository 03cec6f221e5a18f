/* SPDX-License-Identifier: Apache-2.0 */
#include "core/map.h"

#include "lib/test.h"

TEST(many_keys_are_found_and_no_others)
{
    enum { N = 20000 };
    static char keys[N][16];
    struct map m = {0};
    uint64_t v;

    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key %d", i);
        assert_int_equal(map_put(&m, keys[i], strlen(keys[i]), (uint64_t)i), 0);
    }
    assert_int_equal(map_put(&m, "key 7", 5, 1), MAP_EXISTS);
    for (int i = 0; i < N; i++) {
        assert_true(map_find(&m, keys[i], strlen(keys[i]), &v));
        assert_int_equal(v, i);
    }
    assert_false(map_find(&m, "key", 3, &v));
    assert_int_equal(map_set(&m, "key 7", 5, 99), 0);
    assert_true(map_find(&m, "key 7", 5, &v));
    assert_int_equal(v, 99);
    map_done(&m);
    assert_false(map_find(&m, "key 7", 5, NULL));
}

TEST(keys_may_be_empty_or_hold_nul)
{
    struct map m = {0};
    uint64_t v;

    assert_int_equal(map_put(&m, "", 0, 1), 0);
    assert_int_equal(map_put(&m, "\0", 1, 2), 0);
    assert_int_equal(map_put(&m, "\0\0", 2, 3), 0);
    assert_true(map_find(&m, "\0", 1, &v));
    assert_int_equal(v, 2);
    map_done(&m);
}

RUN_TESTS(cmocka_unit_test(many_keys_are_found_and_no_others),
          cmocka_unit_test(keys_may_be_empty_or_hold_nul))
