/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the number formats of MLX. */
#include "quant/affine.h"

#include "core/half.h"
#include "quant/block.h"

static void affine_decode(unsigned bits, const struct plane_row *row, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = i / row->group;
        const float q = (float)affine_code(row->codes, bits, i);

        dst[i] = plane_get(row->type, row->planes[WEIGHT_SCALES], at) * q +
                 plane_get(row->type, row->planes[WEIGHT_ZEROS], at);
    }
}

#define AFFINE_DECODE(bits)                                                                        \
    void affine_decode_##bits(const struct plane_row *row, float *dst, uint64_t n)                 \
    {                                                                                              \
        affine_decode(bits, row, dst, n);                                                          \
    }
AFFINE_DECODE(2)
AFFINE_DECODE(3)
AFFINE_DECODE(4)
AFFINE_DECODE(5)
AFFINE_DECODE(6)
AFFINE_DECODE(8)

void mxfp8_decode(const struct plane_row *row, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = e4m3_to_f32(row->codes[i]) *
                 plane_get(row->type, row->planes[WEIGHT_SCALES], i / row->group);
}

void nvfp4_planes_decode(const struct plane_row *row, float *dst, uint64_t n)
{
    static const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

    for (uint64_t i = 0; i < n; i++) {
        const unsigned q = affine_code(row->codes, 4, i);
        const float value = q & 8 ? -magnitudes[q & 7] : magnitudes[q & 7];

        dst[i] = value * plane_get(row->type, row->planes[WEIGHT_SCALES], i / row->group);
    }
}
