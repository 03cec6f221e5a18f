/* SPDX-License-Identifier: Apache-2.0 */

/* Computes matrix products with NEON and sdot (Armv8.2 DotProd): 4 lanes, 32 registers. */

#define TILE_M 4
#define TILE_V 2

#include "backend/cpu/matmul/matmul-arm.h"
#include "core/cpu.h"

#define VEC_PAIRS     0
#define TILE_NAME(op) op##_dotprod

static inline v_int v_dot(v_int sum, v_int w, v_int a)
{
    return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(a));
}

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_dotprod = {
    .name = "dotprod",
    .flags = CPU_NEON | CPU_DOTPROD,
    .prepare_q8 = prepare_q8_dotprod,
    .prepare_row8 = prepare_row8_dotprod,
    .bitnet = bitnet_dotprod,
    .kernels = KERNELS,
};
