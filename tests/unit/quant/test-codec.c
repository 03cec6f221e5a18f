/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "lib/test.h"
#include "quant/codec.h"

TEST(names_are_found_whole)
{
    enum codec codec = CODEC_N;

    for (int c = 0; c < CODEC_N; c++) {
        const char *name = codec_info((enum codec)c)->name;

        assert_true(codec_find(name, strlen(name), &codec));
        assert_int_equal(codec, c);
        assert_false(codec_find(name, strlen(name) - 1, &codec));
    }
    assert_true(codec_find("q8_0:q4_0", 4, &codec));
    assert_int_equal(codec, CODEC_Q8_0);
    assert_false(codec_find("Q8_0", 4, &codec));
    assert_false(codec_find("", 0, &codec));
    assert_int_equal(codec, CODEC_Q8_0);
}

TEST(heads_have_their_numbers_and_scales)
{
    assert_int_equal(codec_head_bytes(CODEC_F32, 7), 28);
    assert_int_equal(codec_head_bytes(CODEC_F16, 128), 256);
    assert_int_equal(codec_head_bytes(CODEC_BF16, 128), 256);
    assert_int_equal(codec_head_bytes(CODEC_Q8_0, 128), 136);
    assert_int_equal(codec_head_bytes(CODEC_Q4_0, 128), 72);
    assert_int_equal(codec_head_bytes(CODEC_Q3_0, 128), 50);
    assert_int_equal(codec_head_bytes(CODEC_Q3_0, 256), 100);
    assert_int_equal(codec_head_bytes(CODEC_Q2_0, 128), 34);
    assert_int_equal(codec_head_bytes(CODEC_AFFINE4_32, 128), 80);
    assert_int_equal(codec_head_bytes(CODEC_AFFINE4_64, 128), 72);
    assert_int_equal(codec_head_bytes(CODEC_AFFINE3_32, 128), 64);
    assert_int_equal(codec_head_bytes(CODEC_AFFINE2_64, 64), 20);
    assert_int_equal(codec_head_bytes(CODEC_TURBO4, 256), 130);
    assert_int_equal(codec_head_bytes(CODEC_TURBO3, 128), 50);
    assert_int_equal(codec_head_bytes(CODEC_TURBO2_QJL, 128), 36);
    assert_int_equal(codec_head_bytes(CODEC_PLANAR4, 128), 224);
    assert_int_equal(codec_head_bytes(CODEC_ISO3, 128), 114);
    assert_int_equal(codec_head_bytes(CODEC_ROTOR4, 128), 153);
    assert_int_equal(codec_head_bytes(CODEC_FP8, 128), 130);
    assert_int_equal(codec_head_bytes(CODEC_FP8, 20), 22);
    assert_int_equal(codec_scale_elements(CODEC_FP8, 20), 20);
    assert_int_equal(codec_scale_elements(CODEC_F32, 20), 0);
    assert_int_equal(codec_scalars(CODEC_AFFINE3_64, 128), 4);
    assert_int_equal(codec_scalars(CODEC_TURBO4_QJL, 256), 2);
    assert_int_equal(codec_scalars(CODEC_ISO4, 128), 0);
}

RUN_TESTS(cmocka_unit_test(names_are_found_whole),
          cmocka_unit_test(heads_have_their_numbers_and_scales))
