/* SPDX-License-Identifier: Apache-2.0 */

/* Computes matrix products with NEON, sdot and smmla (Armv8.6 I8MM): 4 lanes, 32 registers. */

#define TILE_M    6
#define TILE_V    2
#define TILE_STEP 2

#include "backend/cpu/matmul/matmul-arm.h"
#include "core/cpu.h"

#define VEC_PAIRS     0
#define TILE_NAME(op) op##_i8mm

static inline v_int v_dot(v_int sum, v_int w, v_int a)
{
    return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(a));
}

static inline v_int v_matrix(v_int sum, v_int a, v_int w)
{
    return vmmlaq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(w));
}

static inline v_int v_load_pair(const void *p, const void *q)
{
    return vreinterpretq_s32_s8(vcombine_s8(vld1_s8(p), vld1_s8(q)));
}

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_i8mm = {
    .name = "i8mm",
    .flags = CPU_NEON | CPU_DOTPROD | CPU_I8MM,
    .prepare_q8 = prepare_q8_i8mm,
    .prepare_row8 = prepare_row8_i8mm,
    .bitnet = bitnet_i8mm,
    .kernels = KERNELS,
};
