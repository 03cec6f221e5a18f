/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes codes and planes as MLX stores them. */

#include "lib/test.h"

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "quant/dtype.h"

/* Adds code @q of @bits to a stream of bits, at element @i. */
static void put_code(uint8_t *bytes, unsigned bits, uint32_t i, uint32_t q)
{
    for (unsigned b = 0; b < bits; b++)
        bytes[(i * bits + b) / 8] |= (uint8_t)((q >> b & 1) << (i * bits + b) % 8);
}

/* Writes x, which each type of scales has, as element @i of a plane. */
static void put_scale(enum plane_type type, uint8_t *plane, uint32_t i, float x)
{
    const uint16_t half = type == PLANE_F16 ? f16_from_f32(x) : bf16_from_f32(x);

    if (type == PLANE_F32)
        memcpy(plane + 4 * i, &x, sizeof(x));
    else
        memcpy(plane + 2 * i, &half, sizeof(half));
}

static void check_bits(enum inf_dtype dtype, enum plane_type type)
{
    const struct planes_info *info = dtype_info(dtype)->planes;
    uint8_t codes[256] = {0}, scales[16], offsets[16];
    const struct plane_row row = {
        .codes = codes, .planes = {scales, offsets}, .type = type, .group = 64};
    float got[256];

    for (uint32_t g = 0; g < 4; g++) {
        put_scale(type, scales, g, 0.25f + (float)g);
        put_scale(type, offsets, g, -1.5f * (float)g);
    }
    for (uint32_t i = 0; i < 256; i++)
        put_code(codes, info->bits, i, (i * 7 + i / 16) % (1u << info->bits));
    info->decode(&row, got, 256);
    for (uint32_t i = 0; i < 256; i++) {
        const float g = (float)(i / 64), q = (float)((i * 7 + i / 16) % (1u << info->bits));

        assert_true(got[i] == (0.25f + g) * q - 1.5f * g);
    }
}

TEST(codes_are_a_stream_from_the_lowest_bits_on)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        for (enum plane_type type = 0; dtype_affine((enum inf_dtype)d) && type <= PLANE_BF16;
             type++)
            check_bits((enum inf_dtype)d, type);
}

TEST(scales_in_bytes_are_powers_of_two_or_have_a_sign)
{
    static const uint8_t bytes[] = {0, 1, 127, 254, 255, 0x38, 0xb8, 0x01, 0x7e, 0x7f};

    assert_true(plane_get(PLANE_E8M0, bytes, 0) == 0x1p-127f);
    assert_true(plane_get(PLANE_E8M0, bytes, 1) == 0x1p-126f);
    assert_true(plane_get(PLANE_E8M0, bytes, 2) == 1);
    assert_true(plane_get(PLANE_E8M0, bytes, 3) == 0x1p127f);
    assert_true(isinf(plane_get(PLANE_E8M0, bytes, 4)));
    assert_true(plane_get(PLANE_E4M3, bytes, 5) == 1);
    assert_true(plane_get(PLANE_E4M3, bytes, 6) == -1);
    assert_true(plane_get(PLANE_E4M3, bytes, 7) == 0x1p-9f);
    assert_true(plane_get(PLANE_E4M3, bytes, 8) == 448);
    assert_true(isnan(plane_get(PLANE_E4M3, bytes, 9)));
}

RUN_TESTS(cmocka_unit_test(codes_are_a_stream_from_the_lowest_bits_on),
          cmocka_unit_test(scales_in_bytes_are_powers_of_two_or_have_a_sign))
