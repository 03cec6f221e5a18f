/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies packed int16 weights with AVX-512 VNNI: one instruction multiplies and adds 16
 * pairs. */
#include <immintrin.h>

#include "backend/cpu/matmul/matmul-kernels.h"

#define TILE_M 12u
#define v_n    16u

typedef __m512i v_int;
typedef __m512 v_float;

INLINE v_int v_zero(void)
{
    return _mm512_setzero_si512();
}

INLINE v_int v_load(const void *pairs)
{
    return _mm512_load_si512(pairs);
}

INLINE v_int v_all(const void *pair)
{
    int32_t v;

    memcpy(&v, pair, sizeof(v));
    return _mm512_set1_epi32(v);
}

/* Uses assembly: with the intrinsic, gcc 12 copies sums, and there are not enough registers for the
 * copies. */
INLINE v_int v_dot(v_int acc, v_int w, v_int x)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
}

INLINE v_float v_float_load(const float *x)
{
    return _mm512_loadu_ps(x);
}

INLINE v_float v_float_all(float x)
{
    return _mm512_set1_ps(x);
}

INLINE v_float v_mul(v_float a, v_float b)
{
    return _mm512_mul_ps(a, b);
}

INLINE v_float v_scale(v_int acc, v_float d, v_float sum)
{
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), d, sum);
}

INLINE void v_put(float *y, const float *bias, v_float sum, uint32_t n)
{
    const __mmask16 some = (__mmask16)((1u << n) - 1);
    const v_float first = bias ? _mm512_maskz_loadu_ps(some, bias) : _mm512_setzero_ps();

    _mm512_mask_storeu_ps(y, some, _mm512_add_ps(first, sum));
}

/* Returns the bits of the largest magnitude of 128 floats. NaN counts as larger than all
 * numbers. */
INLINE uint32_t v_largest128(const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_setzero_si512();

    UNROLL for (unsigned i = 0; i < 128; i += 16) most =
        _mm512_max_epi32(most, _mm512_and_si512(magnitude, _mm512_loadu_si512(x + i)));
    return (uint32_t)_mm512_reduce_max_epi32(most);
}

INLINE void v_round128(const float *x, float inverse, int16_t *q)
{
    const v_float factor = _mm512_set1_ps(inverse);

    UNROLL for (unsigned i = 0; i < 128; i += 16) _mm256_storeu_si256(
        (__m256i *)(void *)(q + i),
        _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), factor))));
}

#include "backend/cpu/matmul/matmul-blocks-simd.h"

void matmul_blocks_avx512(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    multiply_blocks(args, n0, n1);
}

void matmul_prepare_blocks_avx512(const float *x, uint32_t K, struct matmul_i16 *dst)
{
    prepare_blocks(x, K, dst);
}
