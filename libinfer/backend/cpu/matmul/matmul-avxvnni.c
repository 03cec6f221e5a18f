/* SPDX-License-Identifier: Apache-2.0 */

/* Computes matrix products with AVX2 and AVX-VNNI: 8 lanes, 16 registers, four int8 products per
 * lane. */

#include "backend/cpu/matmul/matmul-ymm.h"
#include "core/cpu.h"

#define VEC_S8              0
#define TILE_M              3
#define TILE_V              2
#define VEC_PAIRS           0
#define TILE_NAME(op)       op##_avxvnni
#define v_dot(sum, w, a)    _mm256_dpbusd_avx_epi32(sum, w, a)
#define v_dot_s8(sum, w, a) (sum)

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_avxvnni = {
    .name = "avxvnni",
    .flags = CPU_AVX2 | CPU_AVX_VNNI,
    .prepare_q8 = prepare_q8_avxvnni,
    .prepare_row8 = prepare_row8_avxvnni,
    .bitnet = bitnet_avxvnni,
    .blocks = matmul_blocks_avxvnni,
    .prepare_blocks = matmul_prepare_blocks_avx2,
    .kernels = KERNELS,
};
