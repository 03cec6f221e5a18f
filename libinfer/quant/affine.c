/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the affine formats of MLX. */
#include "quant/affine.h"

#include <string.h>

#include "core/half.h"

static float plane_get(const void *plane, uint64_t i)
{
    uint16_t h;

    memcpy(&h, (const uint8_t *)plane + 2 * i, sizeof(h));
    return f16_to_f32(h);
}

void affine_decode(unsigned bits, const void *codes, const void *scales, const void *offsets,
                   uint32_t group, float *dst, uint64_t n)
{
    const unsigned per_byte = 8 / bits;
    const uint8_t *p = codes;

    for (uint64_t i = 0; i < n; i++) {
        const int q = p[i / per_byte] >> i % per_byte * bits & ((1 << bits) - 1);

        dst[i] = plane_get(scales, i / group) * (float)q + plane_get(offsets, i / group);
    }
}
