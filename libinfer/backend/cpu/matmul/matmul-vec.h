/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the kernels of matrix products for vectors of VEC_N 32-bit lanes.
 *
 * One file per instruction set includes this header. Before it does so, the file defines the types
 * v_int and v_flt, the functions v_… that this header uses, and these macros:
 *   VEC_N               lanes: 4, 8 or 16
 *   TILE_M, TILE_V      the size of an int8 tile in registers: TILE_M rows of x, and TILE_V
 *                       vectors, each of VEC_N columns
 *   TILE_STEP           if 2: v_matrix(sum, a, w) multiplies two rows of 8 bytes by two columns
 *                       (matmul-tile-pairs.h), and v_load_pair(p, q) loads 8 bytes of two rows; if
 *                       1 or not defined: there are no such instructions
 *   TILE_FM, TILE_FV    the same for a tile of floats
 *   TILE_NAME(op)       name of a kernel with the suffix of the instruction set
 *   VEC_S8              if 1: v_dot_s8(sum, w, a) exists and multiplies signed w; if 0: panels
 *                       hold signed w as w + 128, and v_dot() multiplies them
 *   VEC_DIRECT          if 1: kernels that multiply a few rows without a panel exist, too
 *   VEC_PAIRS           if 1: products are first added in pairs in 16 bits: v_pairs(w, a)
 *                       makes the pairs, v_add16 adds them up, and v_widen(sum, pairs) widens the
 *                       results and adds them to sums
 *   VEC_PREPARE         if 1: v_top32(x) is the largest magnitude of 32 floats, as bits
 *                       without the sign; v_quant32(x, f, q, nsum) multiplies 32 floats by f and
 *                       rounds them to q; it sets nsum[0] to minus the sum of q[0 … 15], and
 *                       nsum[1] to minus the sum of q[16 … 31]
 * v_rows16(p, stride) loads 16 bytes from each of VEC_N / 4 rows that are 4 × stride apart.
 * v_dot(sum, w, a) adds to each lane 4 products of signed a and w, where w is 0 … 126, or 0 … 255
 * if VEC_S8 is 0.
 */

#include <math.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul-prefetch.h"
#include "core/half.h"
#include "quant/block.h"

#ifndef TILE_STEP
#define TILE_STEP 1
#endif
#if !VEC_PAIRS
#define v_pairs(w, a)       v_zero()
#define v_add16(a, b)       (a)
#define v_widen(sum, pairs) (sum)
#endif

/* ---- preparation of x, as matmul-ref.c defines it ---- */

/* Prepares a block whose largest magnitude, with the bits @amax, is almost 0 or not finite. */
static inline void prepare_odd(struct matmul_q8 *dst, uint32_t amax)
{
    memset(dst, 0, sizeof(*dst));
    if (amax >= 0x7f800000)
        dst->d = dst->s = NAN;
}

#define PREPARE_IS_ODD(amax) ((amax) >= 0x7f800000 || half_from_bits_f32(amax) < 0x1p-100f)

#if VEC_PREPARE
static void TILE_NAME(prepare_q8)(const float *x, uint32_t K, struct matmul_q8 *dst)
{
    for (uint32_t k = 0; k < K; k += 32, x += 32, dst++) {
        const uint32_t amax = v_top32(x);

        if (UNLIKELY(PREPARE_IS_ODD(amax))) {
            prepare_odd(dst, amax);
            continue;
        }
        v_quant32(x, 127 / half_from_bits_f32(amax), dst->q, dst->nsum);
        dst->d = half_from_bits_f32(amax) / 127;
        dst->s = dst->d * (float)-(dst->nsum[0] + dst->nsum[1]);
    }
}
#else
static void TILE_NAME(prepare_q8)(const float *x, uint32_t K, struct matmul_q8 *dst)
{
    for (uint32_t k = 0; k < K; k += 32, x += 32, dst++) {
        uint32_t bits[32], amax = 0;
        int32_t q[32], sum[2] = {0, 0};

        memcpy(bits, x, sizeof(bits));
        for (unsigned i = 0; i < 32; i++)
            amax = MAX(amax, bits[i] & 0x7fffffff);
        if (UNLIKELY(PREPARE_IS_ODD(amax))) {
            prepare_odd(dst, amax);
            continue;
        }
        const float inverse = 127 / half_from_bits_f32(amax);

        /* Adding 1.5 × 2^23 rounds to the nearest integer, ties to even. The integer is then in the
         * low bits of the float. */
        for (unsigned i = 0; i < 32; i++)
            q[i] = (int32_t)half_bits_f32(x[i] * inverse + 0x1.8p23f) - 0x4b400000;
        for (unsigned i = 0; i < 32; i++)
            dst->q[i] = (int8_t)q[i];
        for (unsigned i = 0; i < 16; i++)
            sum[0] -= q[i];
        for (unsigned i = 16; i < 32; i++)
            sum[1] -= q[i];
        dst->d = half_from_bits_f32(amax) / 127;
        dst->nsum[0] = sum[0];
        dst->nsum[1] = sum[1];
        dst->s = dst->d * (float)-(sum[0] + sum[1]);
    }
}
#endif

#if VEC_N == 16
#include "backend/cpu/matmul/matmul-lines-avx512.h"
#endif
#include "backend/cpu/matmul/matmul-decode.h"
#include "backend/cpu/matmul/matmul-decode-affine.h"
#include "backend/cpu/matmul/matmul-decode-k.h"
#include "backend/cpu/matmul/matmul-decode-small.h"
#include "backend/cpu/matmul/matmul-grid.h"
#include "backend/cpu/matmul/matmul-decode-bits.h"
#include "backend/cpu/matmul/matmul-decode-k-small.h"
#include "backend/cpu/matmul/matmul-decode-values.h"
#include "backend/cpu/matmul/matmul-tile.h"
#if VEC_DIRECT && VEC_N == 16
#include "backend/cpu/matmul/matmul-direct-avx512.h"
#include "backend/cpu/matmul/matmul-grid-avx512.h"
#elif VEC_DIRECT
#include "backend/cpu/matmul/matmul-direct.h"
#include "backend/cpu/matmul/matmul-direct-ymm-float.h"
#include "backend/cpu/matmul/matmul-grid-ymm.h"
#endif
#if VEC_DIRECT
#include "backend/cpu/matmul/matmul-direct-grid.h"
#endif
#if VEC_DIRECT
#include "backend/cpu/matmul/matmul-direct-cols.h"
#endif

#include "backend/cpu/matmul/matmul-bitnet.h"
#include "backend/cpu/matmul/matmul-coded.h"
#if VEC_DIRECT
#include "backend/cpu/matmul/matmul-coded-awq.h"
#include "backend/cpu/matmul/matmul-coded-gptq.h"
#include "backend/cpu/matmul/matmul-direct-coded.h"
#include "backend/cpu/matmul/matmul-direct-nibbles.h"
#include "backend/cpu/matmul/matmul-direct-fp8.h"
#endif

#define KERNEL(dtype, stem, how, ...)                                                              \
    [INF_DTYPE_##dtype] = {TILE_NAME(decode_##stem), TILE_NAME(multiply_##how), __VA_ARGS__,       \
                           .kind = &kind_##how}
#if VEC_DIRECT
#define DIRECT_NAME(stem) TILE_NAME(direct_##stem), 8, DIRECT_M
/* TQ2_0 has so few bytes that memory is not the limit for four prepared rows. For these, a panel is
 * faster. */
#define DIRECT_TQ2_0_NAME TILE_NAME(direct_tq2_0), 8, 3
#else
#define DIRECT_NAME(stem) NULL, 0, 0
#define DIRECT_TQ2_0_NAME NULL, 0, 0
#endif
#if VEC_DIRECT
#define DIRECT_COLS_NAME(stem) TILE_NAME(direct_##stem), VEC_N, DIRECT_M
#else
#define DIRECT_COLS_NAME(stem) NULL, 0, 0
#endif
#if VEC_DIRECT && VEC_N == 16
#define DIRECT_PLANES_NAME(stem) TILE_NAME(direct_##stem), 8, DIRECT_M
#else
#define DIRECT_PLANES_NAME(stem) NULL, 0, 0
#endif
#if VEC_DIRECT
#define DIRECT_FP8_NAME(stem) TILE_NAME(direct_##stem), FP8_ROWS, DIRECT_M
#define CODED_DIRECT_FP8      .direct = TILE_NAME(direct_fp8), .direct_n = FP8_ROWS, .direct_m = DIRECT_M
#define CODED_FEW_AWQ         .few = TILE_NAME(few_awq4), .few_m = AWQ_M
#else
#define DIRECT_FP8_NAME(stem) NULL, 0, 0
#define CODED_DIRECT_FP8      .direct = NULL
#define CODED_FEW_AWQ         .few = NULL
#endif
#if VEC_DIRECT
#define CODED_FEW_GPTQ(bits) .few = TILE_NAME(few_gptq##bits), .few_m = GPTQ_M
#else
#define CODED_FEW_GPTQ(bits) .few = NULL
#endif
#if VEC_DIRECT
#define CODED_DIRECT(stem)                                                                         \
    .direct = TILE_NAME(direct_##stem), .direct_n = VEC_N, .direct_m = DIRECT_M
#else
#define CODED_DIRECT(stem) .direct = NULL
#endif
#define CODED(dtype, stem, how, ...)                                                               \
    [INF_DTYPE_##dtype] = {.multiply = TILE_NAME(multiply_##how),                                  \
                           .multiply_16 = CODED_16_##how,                                          \
                           .group = CODED_GROUP_##how,                                             \
                           .fill = TILE_NAME(fill_##stem),                                         \
                           __VA_ARGS__}
#define CODED_16_q5_0        TILE_NAME(multiply_q6_k)
#define CODED_16_q6_k        NULL
#define CODED_16_coded8      NULL
#define CODED_16_nf4         TILE_NAME(multiply_nf4_16)
#define CODED_16_parts128    TILE_NAME(multiply_parts16)
#define CODED_GROUP_q5_0     32
#define CODED_GROUP_q6_k     16
#define CODED_GROUP_coded8   32
#define CODED_GROUP_nf4      32
#define CODED_GROUP_parts128 128
#define KERNELS                                                                                    \
    {                                                                                              \
        KERNEL(F32, f32, float, DIRECT_COLS_NAME(f32)),                                            \
            KERNEL(F16, f16, float, DIRECT_COLS_NAME(f16)),                                        \
            KERNEL(BF16, bf16, float, DIRECT_COLS_NAME(bf16)),                                     \
            KERNEL(Q8_0, q8_0, q8_0, DIRECT_NAME(q8_0)),                                           \
            KERNEL(Q4_0, q4_0, q4_0, DIRECT_NAME(q4_0)),                                           \
            KERNEL(Q4_1, q4_1, q4_k, DIRECT_NAME(q4_1)),                                           \
            KERNEL(Q5_0, q5_0, q5_0, DIRECT_NAME(q5_0)),                                           \
            KERNEL(Q5_1, q5_1, q5_k, DIRECT_NAME(q5_1)),                                           \
            KERNEL(Q4_K, q4_k, q4_k, DIRECT_NAME(q4_k)),                                           \
            KERNEL(Q5_K, q5_k, q5_k, DIRECT_NAME(q5_k)),                                           \
            KERNEL(Q6_K, q6_k, q6_k, DIRECT_NAME(q6_k)),                                           \
            KERNEL(MXFP4, mxfp4, q5_0, DIRECT_NAME(mxfp4)),                                        \
            KERNEL(TQ2_0, tq2_0, q4_0, DIRECT_TQ2_0_NAME), KERNEL(TQ1_0, tq1_0, q4_0, NULL, 0, 0), \
            KERNEL(IQ2_XXS, iq2_xxs, iq3_xxs, DIRECT_NAME(iq2_xxs)),                               \
            KERNEL(IQ2_XS, iq2_xs, iq2_s, DIRECT_NAME(iq2_xs)),                                    \
            KERNEL(IQ2_S, iq2_s, iq2_s, DIRECT_NAME(iq2_s)),                                       \
            KERNEL(IQ3_XXS, iq3_xxs, iq3_xxs, DIRECT_NAME(iq3_xxs)),                               \
            KERNEL(IQ3_S, iq3_s, q5_0, DIRECT_NAME(iq3_s)),                                        \
            KERNEL(IQ1_S, iq1_s, q5_0, DIRECT_NAME(iq1_s)),                                        \
            KERNEL(IQ1_M, iq1_m, q6_k, DIRECT_NAME(iq1_m)),                                        \
            KERNEL(Q2_K, q2_k, q2_k, DIRECT_COLS_NAME(q2_k)),                                      \
            KERNEL(Q3_K, q3_k, q6_k, DIRECT_COLS_NAME(q3_k)),                                      \
            KERNEL(IQ4_NL, iq4_nl, q8_0, DIRECT_NAME(iq4_nl)),                                     \
            KERNEL(IQ4_XS, iq4_xs, q8_0, DIRECT_COLS_NAME(iq4_xs)),                                \
            KERNEL(NVFP4, nvfp4, q6_k, DIRECT_COLS_NAME(nvfp4)),                                   \
            KERNEL(Q1_0, q1_0, q4_0, DIRECT_COLS_NAME(q1_0)),                                      \
            KERNEL(Q2_0, q2_0, q4_0, DIRECT_COLS_NAME(q2_0)),                                      \
            KERNEL(MLX2, mlx2, q4_k, DIRECT_PLANES_NAME(planes2), TILE_NAME(decode_planes)),       \
            KERNEL(MLX3, mlx3, q4_k, DIRECT_PLANES_NAME(mlx3), TILE_NAME(decode_planes)),          \
            KERNEL(MLX4, mlx4, q4_k, DIRECT_PLANES_NAME(mlx4), TILE_NAME(decode_planes)),          \
            KERNEL(MLX5, mlx5, q5_k, DIRECT_PLANES_NAME(mlx5), TILE_NAME(decode_planes)),          \
            KERNEL(MLX6, mlx6, mlx6, DIRECT_PLANES_NAME(mlx6), TILE_NAME(decode_planes)),          \
            KERNEL(MLX8, mlx8, mlx8, DIRECT_PLANES_NAME(mlx8), TILE_NAME(decode_planes8)),         \
            KERNEL(MXFP8, mxfp8, parts32, DIRECT_FP8_NAME(mxfp8), TILE_NAME(decode_planes_mxfp8)), \
            KERNEL(NVFP4_PLANES, nvfp4_planes, q6_k, DIRECT_PLANES_NAME(nvfp4_planes),             \
                   TILE_NAME(decode_planes_nvfp4)),                                                \
            CODED(GPTQ2, gptq2, q5_0, CODED_FEW_GPTQ(2)),                                          \
            CODED(GPTQ3, gptq3, q5_0, CODED_FEW_GPTQ(3)),                                          \
            CODED(GPTQ4, gptq4, q5_0, CODED_FEW_GPTQ(4)),                                          \
            CODED(GPTQ8, gptq8, coded8, CODED_FEW_GPTQ(8)),                                        \
            CODED(AWQ4, awq4, q5_0, CODED_FEW_AWQ), CODED(CT4, ct4, q5_0, CODED_DIRECT(ct4)),      \
            CODED(CT8, rows8, coded8, CODED_DIRECT(coded8)),                                       \
            CODED(INT8, rows8, coded8, CODED_DIRECT(coded8)),                                      \
            CODED(FP8, fp8, parts128, CODED_DIRECT_FP8), CODED(NF4, nf4, nf4, CODED_DIRECT(nf4)),  \
            CODED(CTFP4, ctfp4, q6_k, CODED_DIRECT(ctfp4)),                                        \
    }
