/* SPDX-License-Identifier: Apache-2.0 */
#include "core/array.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/test.h"

TEST(elements_stay_while_an_array_grows)
{
    uint32_t *array = NULL, cap = 0;

    assert_int_equal(ARRAY_GROW(array, cap, 0), 0);
    assert_null(array);
    for (uint32_t i = 0; i < 10000; i++) {
        const uint32_t before = cap;

        assert_int_equal(ARRAY_GROW(array, cap, i + 1u), 0);
        assert_true(cap > i && (cap == before || cap >= 2 * before));
        array[i] = i;
    }
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(array[i], i);
    free(array);
}

TEST(new_elements_are_zero)
{
    uint64_t *array = NULL;
    size_t cap = 0;

    for (size_t n = 1; n < 100000; n *= 3) {
        const size_t before = cap;

        assert_int_equal(ARRAY_GROW_ZEROED(array, cap, n), 0);
        for (size_t i = before; i < cap; i++) {
            assert_int_equal(array[i], 0);
            array[i] = 1;
        }
    }
    free(array);
}

TEST(too_many_are_refused_and_nothing_changes)
{
    uint64_t *array = NULL, *before;
    uint8_t *bytes = NULL, small = 0;
    size_t cap = 0;

    assert_int_equal(ARRAY_GROW(array, cap, 20), 0);
    before = array;
    assert_int_equal(ARRAY_GROW(array, cap, SIZE_MAX), -ENOMEM);
    assert_int_equal(ARRAY_GROW(array, cap, SIZE_MAX / 8 + 1), -ENOMEM);
    assert_int_equal(ARRAY_GROW(array, cap, SIZE_MAX / 16 + 1), -ENOMEM);
    assert_ptr_equal(array, before);
    assert_int_equal(cap, 20);
    free(array);

    /* The capacity stays within its type: 128 must not become 0 when it is doubled. */
    assert_int_equal(ARRAY_GROW(bytes, small, 128), 0);
    assert_int_equal(ARRAY_GROW(bytes, small, 129), 0);
    assert_int_equal(small, 255);
    assert_int_equal(ARRAY_GROW(bytes, small, 256), -ENOMEM);
    free(bytes);
}

RUN_TESTS(cmocka_unit_test(elements_stay_while_an_array_grows),
          cmocka_unit_test(new_elements_are_zero),
          cmocka_unit_test(too_many_are_refused_and_nothing_changes))
