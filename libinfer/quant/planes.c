/* SPDX-License-Identifier: Apache-2.0 */
/* Converts elements of planes. */
#include "quant/planes.h"

#include <assert.h>
#include <string.h>

#include "core/half.h"
#include "quant/block.h"

float plane_get(enum plane_type type, const void *plane, uint64_t i)
{
    const uint8_t *p = (const uint8_t *)plane + i * plane_bytes(type);
    uint16_t half;
    float f;

    switch (type) {
    case PLANE_F16:
        memcpy(&half, p, sizeof(half));
        return f16_to_f32(half);
    case PLANE_BF16:
        memcpy(&half, p, sizeof(half));
        return bf16_to_f32(half);
    case PLANE_E8M0:
        return 2 * block_e8m0_half(*p);
    case PLANE_E4M3:
        return e4m3_to_f32(*p);
    default:
        memcpy(&f, p, sizeof(f));
        return f;
    }
}

void plane_put(enum plane_type type, void *plane, uint64_t i, float x)
{
    const uint16_t half = type == PLANE_F16 ? f16_from_f32(x) : bf16_from_f32(x);
    uint8_t *p = (uint8_t *)plane + i * plane_bytes(type);

    assert(type <= PLANE_BF16);
    if (type == PLANE_F32)
        memcpy(p, &x, sizeof(x));
    else
        memcpy(p, &half, sizeof(half));
}
