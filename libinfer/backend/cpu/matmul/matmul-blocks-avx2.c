/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies packed int16 weights with AVX2: two instructions multiply and add 8 pairs. */
#define TILE_M 4u

#include "backend/cpu/matmul/matmul-ymm-blocks.h"

INLINE v_int v_dot(v_int acc, v_int w, v_int x)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(w, x));
}

void matmul_blocks_avx2(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    multiply_blocks(args, n0, n1);
}

void matmul_prepare_blocks_avx2(const float *x, uint32_t K, struct matmul_i16 *dst)
{
    prepare_blocks(x, K, dst);
}
