/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes the formats IQ1, IQ2 and IQ3 (quant/block-iq.h).
 *
 * The results have the same bits as those of the gguf Python package.
 */

#include <string.h>

#include "core/half.h"
#include "quant/block-iq.h"
#include "quant/grid.h"

/* Writes 8 weights: scale × magnitude, with the given signs. */
static void iq_put8(float *dst, float scale, uint64_t point, uint8_t signs)
{
    for (unsigned i = 0; i < 8; i++)
        dst[i] = scale * (float)(point >> 8 * i & 255) * (signs >> i & 1 ? -1.0f : 1.0f);
}

static float iq2_scale(float d, unsigned s)
{
    return d * (0.5f + (float)s) * 0.25f;
}

void decode_iq2_xxs(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq2_xxs b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned g = 0; g < 8; g++) {
            uint32_t signs;

            memcpy(&signs, b.groups[g] + 4, sizeof(signs));
            for (unsigned l = 0; l < 4; l++)
                iq_put8(dst + i + 32 * g + 8 * l, iq2_scale(f16_to_f32(b.d), signs >> 28),
                        grid_iq2_xxs[b.groups[g][l]], block_iq_signs(signs >> 7 * l & 127));
        }
    }
}

void decode_iq2_xs(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq2_xs b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++) {
            const unsigned s = b.scales[l / 4] >> l % 4 / 2 * 4 & 15;

            iq_put8(dst + i + 8 * l, iq2_scale(f16_to_f32(b.d), s), grid_iq2_xs[b.q[l] & 511],
                    block_iq_signs(b.q[l] >> 9));
        }
    }
}

void decode_iq2_s(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq2_s b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++) {
            const unsigned s = b.scales[l / 4] >> l % 4 / 2 * 4 & 15;
            const unsigned high = b.high[l / 4] >> l % 4 * 2 & 3u;

            iq_put8(dst + i + 8 * l, iq2_scale(f16_to_f32(b.d), s), grid_iq2_s[b.q[l] | high << 8],
                    b.signs[l]);
        }
    }
}

void decode_iq3_xxs(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq3_xxs b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++) {
            const uint64_t high = grid_iq3_xxs[b.q[2 * l + 1]];
            uint32_t signs;

            memcpy(&signs, b.signs[l / 4], sizeof(signs));
            iq_put8(dst + i + 8 * l, f16_to_f32(b.d) * (0.5f + (float)(signs >> 28)) * 0.5f,
                    grid_iq3_xxs[b.q[2 * l]] | high << 32,
                    block_iq_signs(signs >> l % 4 * 7 & 127));
        }
    }
}

void decode_iq3_s(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq3_s b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++) {
            const unsigned s = b.scales[l / 8] >> l % 8 / 4 * 4 & 15;
            const unsigned high = (unsigned)b.high[l / 4] >> l % 4 * 2;
            const uint64_t second = grid_iq3_s[b.q[2 * l + 1] | (high & 2) << 7];

            iq_put8(dst + i + 8 * l, f16_to_f32(b.d) * (float)(1 + 2 * s),
                    grid_iq3_s[b.q[2 * l] | (high & 1) << 8] | second << 32, b.signs[l]);
        }
    }
}

/* Writes 8 weights of IQ1_S or IQ1_M. @high: 3 bits of the index, and the sign of 1/8. */
static void iq1_put8(float *dst, float d, unsigned s, unsigned low, unsigned high)
{
    const uint64_t point = grid_iq1[low | (high & 7) << 8];
    const float scale = d * (float)(2 * s + 1);

    for (unsigned i = 0; i < 8; i++) {
        const int eighths = (int)(point >> 8 * i & 255) - (high & 8 ? 11 : 9);

        dst[i] = scale * ((float)eighths * 0.125f);
    }
}

void decode_iq1_s(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq1_s b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++) {
            const unsigned h = b.high[l / 4];

            iq1_put8(dst + i + 8 * l, f16_to_f32(b.d), h >> 12 & 7, b.q[l],
                     (h >> l % 4 * 3 & 7) | h >> 15 << 3);
        }
    }
}

void decode_iq1_m(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq1_m b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < 32; l++)
            iq1_put8(dst + i + 8 * l, f16_to_f32(block_iq1_m_d(b.scales)),
                     b.scales[l / 8] >> l % 8 / 2 * 3 & 7, b.q[l], b.high[l / 2] >> l % 2 * 4 & 15);
    }
}
