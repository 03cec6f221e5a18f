/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes codes and planes as MLX stores them. */

#include "lib/test.h"

#include "core/half.h"
#include "quant/affine.h"

/* Adds code @q to a row of words of 32 bits, at element @i. */
static void put_code(uint32_t *words, unsigned bits, uint32_t i, uint32_t q)
{
    words[i * bits / 32] |= q << i * bits % 32;
}

static void check_bits(unsigned bits)
{
    uint32_t words[32] = {0};
    uint16_t scales[4], offsets[4];
    float got[256];

    for (uint32_t g = 0; g < 4; g++) {
        scales[g] = f16_from_f32(0.25f + (float)g);
        offsets[g] = f16_from_f32(-1.5f * (float)g);
    }
    for (uint32_t i = 0; i < 256; i++)
        put_code(words, bits, i, (i * 7 + i / 16) % (1u << bits));
    affine_decode(bits, words, scales, offsets, 64, got, 256);
    for (uint32_t i = 0; i < 256; i++) {
        const float g = (float)(i / 64), q = (float)((i * 7 + i / 16) % (1u << bits));

        assert_true(got[i] == (0.25f + g) * q - 1.5f * g);
    }
}

TEST(codes_lie_in_words_from_the_lowest_bits_on)
{
    check_bits(2);
    check_bits(4);
}

RUN_TESTS(cmocka_unit_test(codes_lie_in_words_from_the_lowest_bits_on))
