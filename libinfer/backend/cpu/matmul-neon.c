/* SPDX-License-Identifier: Apache-2.0 */

/* Matrix products with plain NEON: 4 lanes, 32 registers, products of int8 by way of 16 bits. */

#include "backend/cpu/matmul-arm.h"
#include "core/cpu.h"

#define TILE_NAME(op) op##_neon

/* Two products of at most 128 × 127 fit in 16 bits. */
static inline v_int v_dot(v_int sum, v_int w, v_int a)
{
    const int8x16_t w8 = vreinterpretq_s8_s32(w), a8 = vreinterpretq_s8_s32(a);
    const int16x8_t low = vmull_s8(vget_low_s8(w8), vget_low_s8(a8));
    const int16x8_t high = vmull_high_s8(w8, a8);

    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

#include "backend/cpu/matmul-vec.h"

const struct matmul_ops matmul_neon = {
    .name = "neon",
    .flags = CPU_NEON,
    .prepare_q8 = prepare_q8_neon,
    .kernels = KERNELS,
};
