/* SPDX-License-Identifier: Apache-2.0 */

/* Computes matrix products with plain NEON: 4 lanes, 32 registers; int8 products have 16 bits. */

#define TILE_M 4
#define TILE_V 2

#include "backend/cpu/matmul/matmul-arm.h"
#include "core/cpu.h"

#define VEC_PAIRS     1
#define TILE_NAME(op) op##_neon

#define v_dot(sum, w, a) v_widen(sum, v_pairs(w, a))

static inline v_int v_pairs(v_int w, v_int a)
{
    const int8x16_t w8 = vreinterpretq_s8_s32(w), a8 = vreinterpretq_s8_s32(a);
    const int16x8_t low = vmull_s8(vget_low_s8(w8), vget_low_s8(a8));

    return vreinterpretq_s32_s16(vpaddq_s16(low, vmull_high_s8(w8, a8)));
}

static inline v_int v_add16(v_int a, v_int b)
{
    return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
}

static inline v_int v_widen(v_int sum, v_int pairs)
{
    return vpadalq_s16(sum, vreinterpretq_s16_s32(pairs));
}

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_neon = {
    .name = "neon",
    .flags = CPU_NEON,
    .prepare_q8 = prepare_q8_neon,
    .prepare_row8 = prepare_row8_neon,
    .bitnet = bitnet_neon,
    .kernels = KERNELS,
};
