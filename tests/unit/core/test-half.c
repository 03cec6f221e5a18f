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

TEST(every_e4m3_survives_a_round_trip)
{
    for (uint32_t x = 0; x < 256; x++) {
        const float f = e4m3_to_f32((uint8_t)x);

        if (isnan(f))
            assert_int_equal(x & 0x7f, 0x7f);
        else
            assert_int_equal(e4m3_from_f32(f), x);
    }
    assert_true(e4m3_to_f32(0x7e) == 448.0f && e4m3_to_f32(0x01) == 0x1p-9f);
    assert_true(e4m3_to_f32(0xb8) == -1.0f);
}

/* No other value of the format is nearer to the number than the result. If two values are equally
 * near, the result is the even one. */
TEST(e4m3_rounds_to_nearest_even)
{
    uint32_t u = 1;

    for (int i = 0; i < 200000; i++) {
        u = u * 1664525u + 1013904223u;
        const float f = i % 2 == 0 ? ldexpf((float)(u >> 8), (int)(u % 19) - 34)
                                   : ldexpf((float)(u >> 27), (int)(u % 19) - 14);
        const uint8_t got = e4m3_from_f32(i % 3 == 0 ? -f : f) & 0x7f;
        const float error = fabsf(e4m3_to_f32(got) - fminf(f, 448));

        assert_true(got < 0x7f);
        for (int d = -1; d <= 1; d += 2) {
            const int other = got + d;

            if (other < 0 || other > 0x7e)
                continue;
            const float e = fabsf(e4m3_to_f32((uint8_t)other) - fminf(f, 448));

            assert_true(error < e || (error == e && got % 2 == 0));
        }
    }
    assert_int_equal(e4m3_from_f32(1e30f), 0x7e);
    assert_int_equal(e4m3_from_f32(-INFINITY), 0xfe);
    assert_int_equal(e4m3_from_f32(NAN) & 0x7f, 0x7e);
}

RUN_TESTS(cmocka_unit_test(every_f16_survives_a_round_trip),
#if defined(__FLT16_MAX__)
          cmocka_unit_test(rounding_agrees_with_the_compiler),
#endif
          cmocka_unit_test(bf16_rounds_to_nearest_even),
          cmocka_unit_test(every_e4m3_survives_a_round_trip),
          cmocka_unit_test(e4m3_rounds_to_nearest_even))
