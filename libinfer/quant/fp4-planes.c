/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes MXFP4 whose scales are in a separate array (fp4-planes.h). */
#include "quant/fp4-planes.h"

#include "core/macros.h"

void fp4_planes_decode(const void *codes, const void *scales, float *dst, uint64_t n)
{
    const uint8_t *p = codes, *s = scales;
    uint8_t block[sizeof(struct block_mxfp4)];

    for (uint64_t i = 0; i < n; i += BLOCK_ELEMS, p += 16, s++) {
        fp4_planes_join(p, s, 1, block);
        decode_mxfp4(block, dst + i, BLOCK_ELEMS);
    }
}

void fp4_planes_decode_row(const struct plane_row *row, float *dst, uint64_t n)
{
    fp4_planes_decode(row->codes, row->planes[WEIGHT_SCALES], dst, n);
}
