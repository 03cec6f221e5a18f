/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes packed ternary weights. */
#include "quant/bitnet.h"

void bitnet_decode(const void *codes, unsigned t, float factor, float *dst, uint64_t n)
{
    const uint8_t *p = codes;

    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float)((p[i] >> 2 * t & 3) - 1) * factor;
}

void bitnet_decode_row(const struct plane_row *row, float *dst, uint64_t n)
{
    bitnet_decode(row->codes, row->place, plane_get(row->type, row->planes[WEIGHT_SCALES], 0), dst,
                  n);
}
