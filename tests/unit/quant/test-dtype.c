/* SPDX-License-Identifier: Apache-2.0 */

#include "lib/test.h"

#include "quant/dtype.h"

TEST(values_outside_the_enum_have_no_row)
{
    assert_null(dtype_info(INF_DTYPE_N));
    assert_null(dtype_info(INF_DTYPE_INVALID));
}

TEST(rows_are_whole_blocks)
{
    uint64_t bytes = 7;

    assert_true(dtype_row_bytes(INF_DTYPE_Q4_K, 4096, &bytes));
    assert_int_equal(bytes, 16 * 144);
    assert_true(dtype_row_bytes(INF_DTYPE_F16, 3, &bytes));
    assert_int_equal(bytes, 6);
    assert_false(dtype_row_bytes(INF_DTYPE_Q4_K, 4096 + 32, &bytes));
    assert_false(dtype_row_bytes(INF_DTYPE_Q8_0, 33, &bytes));
    assert_false(dtype_row_bytes(INF_DTYPE_INVALID, 32, &bytes));
    assert_int_equal(bytes, 6);
}

TEST(a_row_too_large_for_64_bits_is_refused)
{
    uint64_t bytes;

    assert_false(dtype_row_bytes(INF_DTYPE_F32, UINT64_MAX / 2, &bytes));
    assert_false(dtype_row_bytes(INF_DTYPE_Q8_0, UINT64_MAX - 31, &bytes));
}

RUN_TESTS(cmocka_unit_test(values_outside_the_enum_have_no_row),
          cmocka_unit_test(rows_are_whole_blocks),
          cmocka_unit_test(a_row_too_large_for_64_bits_is_refused))
