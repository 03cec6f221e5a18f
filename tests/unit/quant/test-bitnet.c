/* SPDX-License-Identifier: Apache-2.0 */

#include "lib/test.h"

#include "quant/bitnet.h"

/* The example in the description of unpack_weights() in transformers. */
TEST(rows_are_those_of_transformers)
{
    static const uint8_t codes[2][2] = {{0xa1, 0x18}, {0x90, 0x0a}};
    static const float want[8][2] = {{0, -1}, {-1, 1}, {-1, 1}, {-1, 1},
                                     {1, 0},  {0, -1}, {1, -1}, {1, -1}};
    const float factor = 0.5f;
    float got[2];

    for (uint32_t i = 0; i < 8; i++) {
        bitnet_decode(codes[i % 2], i / 2, factor, got, 2);
        assert_true(got[0] == 0.5f * want[i][0] && got[1] == 0.5f * want[i][1]);
    }
}

TEST(packed_rows_are_spread_over_the_quarters)
{
    assert_int_equal(bitnet_row(0, 8), 0);
    assert_int_equal(bitnet_row(1, 8), 2);
    assert_int_equal(bitnet_row(3, 8), 6);
    assert_int_equal(bitnet_row(4, 8), 1);
    assert_int_equal(bitnet_row(7, 8), 7);
}

RUN_TESTS(cmocka_unit_test(rows_are_those_of_transformers),
          cmocka_unit_test(packed_rows_are_spread_over_the_quarters))
