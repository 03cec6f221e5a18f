/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes matrix products with AVX2: 8 lanes, 16 registers.
 *
 * vpmaddubsw adds two products w × a of an unsigned and a signed byte in 16 bits with saturation.
 * With w ≤ 126 and |a| ≤ 127 the sums stay below the limit of 32767. Signed weights w are
 * multiplied as |w| × (sign(w) a); their sums are at most 128 × 127 × 2 = 32512.
 */

#include "backend/cpu/matmul/matmul-ymm.h"
#include "core/cpu.h"

#define VEC_S8        1
#define TILE_M        4
#define TILE_V        1
#define VEC_PAIRS     1
#define TILE_NAME(op) op##_avx2

#define v_pairs(w, a)       _mm256_maddubs_epi16(w, a)
#define v_add16(a, b)       _mm256_add_epi16(a, b)
#define v_dot(sum, w, a)    v_widen(sum, v_pairs(w, a))
#define v_dot_s8(sum, w, a) v_dot(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(a, w))

static inline v_int v_widen(v_int sum, v_int pairs)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_avx2 = {
    .name = "avx2",
    .flags = CPU_AVX2,
    .prepare_q8 = prepare_q8_avx2,
    .prepare_row8 = prepare_row8_avx2,
    .bitnet = bitnet_avx2,
    .blocks = matmul_blocks_avx2,
    .prepare_blocks = matmul_prepare_blocks_avx2,
    .kernels = KERNELS,
};
