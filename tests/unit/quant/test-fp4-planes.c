/* SPDX-License-Identifier: Apache-2.0 */

#include "lib/test.h"

#include "quant/fp4-planes.h"

/* The codes 0 … 15 are the numbers of E2M1 (OCP Microscaling Formats, version 1.0). */
TEST(codes_are_in_the_order_of_the_weights)
{
    static const float values[16] = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    static const uint8_t scales[2] = {127, 128};
    uint8_t codes[32];
    float got[64];

    for (uint8_t i = 0; i < 32; i++)
        codes[i] = (uint8_t)((2 * i & 15) | (2 * i + 1) % 16 << 4);
    fp4_planes_decode(codes, scales, got, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_true(got[i] == values[i % 16] * (i < 32 ? 1 : 2));
}

TEST(joined_blocks_are_those_of_gguf_files)
{
    uint8_t codes[16], joined[sizeof(struct block_mxfp4)];
    const uint8_t scale = 99;

    for (uint8_t i = 0; i < 16; i++)
        codes[i] = (uint8_t)(i | (15 - i) << 4);
    fp4_planes_join(codes, &scale, 1, joined);
    assert_int_equal(joined[0], 99);
    for (uint8_t i = 0; i < 16; i++) {
        const uint8_t first = codes[i / 2], last = codes[8 + i / 2];

        assert_int_equal(joined[1 + i] & 15, i % 2 ? first >> 4 : first & 15);
        assert_int_equal(joined[1 + i] >> 4, i % 2 ? last >> 4 : last & 15);
    }
}

RUN_TESTS(cmocka_unit_test(codes_are_in_the_order_of_the_weights),
          cmocka_unit_test(joined_blocks_are_those_of_gguf_files))
