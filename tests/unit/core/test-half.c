/* SPDX-License-Identifier: Apache-2.0 */
#include "core/half.h"

#include <math.h>

#include "lib/test.h"

TEST(every_f16_survives_a_round_trip)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = f16_to_f32((uint16_t)h);

        if (isnan(f))
            assert_true(isnan(f16_to_f32(f16_from_f32(f))));
        else
            assert_int_equal(f16_from_f32(f), h);
    }
}

#if defined(__FLT16_MAX__)
TEST(rounding_agrees_with_the_compiler)
{
    uint32_t u = 1;

    for (int i = 0; i < 4000000; i++) {
        u = u * 1664525u + 1013904223u;
        const float f = half_from_bits_f32(u);
        const _Float16 want = (_Float16)f;
        uint16_t bits;

        memcpy(&bits, &want, 2);
        if (!isnan(f))
            assert_int_equal(f16_from_f32(f), bits);
    }
}
#endif

TEST(bf16_rounds_to_nearest_even)
{
    assert_int_equal(bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(bf16_from_f32(half_from_bits_f32(0x3f808000)), 0x3f80);
    assert_int_equal(bf16_from_f32(half_from_bits_f32(0x3f818000)), 0x3f82);
    assert_true(isnan(bf16_to_f32(bf16_from_f32(NAN))));
    assert_true(isinf(bf16_to_f32(bf16_from_f32(INFINITY))));
}

RUN_TESTS(cmocka_unit_test(every_f16_survives_a_round_trip),
#if defined(__FLT16_MAX__)
          cmocka_unit_test(rounding_agrees_with_the_compiler),
#endif
          cmocka_unit_test(bf16_rounds_to_nearest_even))
