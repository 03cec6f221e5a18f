/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes MXFP4 whose scales are in a separate array (fp4-planes.h). */
#include "quant/fp4-planes.h"

#include "quant/affine.h"

void fp4_planes_decode(const void *codes, const void *scales, float *dst, uint64_t n)
{
    /* Twice the values of the codes. */
    static const float values[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.f, -1, -2, -3, -4, -6, -8, -12};

    for (uint64_t i = 0; i < n; i++)
        dst[i] = values[affine_code(codes, 4, i)] *
                 block_e8m0_half(((const uint8_t *)scales)[i / BLOCK_ELEMS]);
}

void fp4_planes_decode_row(const struct plane_row *row, float *dst, uint64_t n)
{
    fp4_planes_decode(row->codes, row->planes[WEIGHT_SCALES], dst, n);
}
