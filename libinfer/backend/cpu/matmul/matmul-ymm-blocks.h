/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies packed int16 weights with vectors of 32 bytes. The including file defines TILE_M and
 * v_dot(). */

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"

#define v_n 8u

typedef __m256i v_int;
typedef __m256 v_float;

INLINE v_int v_dot(v_int acc, v_int w, v_int x);

INLINE v_int v_zero(void)
{
    return _mm256_setzero_si256();
}

INLINE v_int v_load(const void *pairs)
{
    return _mm256_load_si256(pairs);
}

INLINE v_int v_all(const void *pair)
{
    int32_t v;

    memcpy(&v, pair, sizeof(v));
    return _mm256_set1_epi32(v);
}

INLINE v_float v_float_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

INLINE v_float v_float_all(float x)
{
    return _mm256_set1_ps(x);
}

INLINE v_float v_mul(v_float a, v_float b)
{
    return _mm256_mul_ps(a, b);
}

INLINE v_float v_scale(v_int acc, v_float d, v_float sum)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc), d, sum);
}

INLINE void v_put(float *y, const float *bias, v_float sum, uint32_t n)
{
    float buffer[8] = {0};

    if (n == 8) {
        const v_float first = bias ? _mm256_loadu_ps(bias) : _mm256_setzero_ps();

        _mm256_storeu_ps(y, _mm256_add_ps(first, sum));
        return;
    }
    if (bias)
        memcpy(buffer, bias, n * sizeof(float));
    _mm256_storeu_ps(buffer, _mm256_add_ps(_mm256_loadu_ps(buffer), sum));
    memcpy(y, buffer, n * sizeof(float));
}

/* Returns the bits of the largest magnitude of 128 floats. NaN counts as larger than all
 * numbers. */
INLINE uint32_t v_largest128(const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    __m128i m;

    UNROLL for (unsigned i = 0; i < 128; i += 8) most = _mm256_max_epi32(
        most, _mm256_and_si256(magnitude, _mm256_castps_si256(_mm256_loadu_ps(x + i))));
    m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE void v_round128(const float *x, float inverse, int16_t *q)
{
    const v_float factor = _mm256_set1_ps(inverse);

    UNROLL for (unsigned i = 0; i < 128; i += 16)
    {
        const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
        const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), factor));

        /* The packing instruction works within 128-bit halves, so the permutation restores the
         * order of the numbers. */
        _mm256_storeu_si256((__m256i *)(void *)(q + i),
                            _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8));
    }
}

#include "backend/cpu/matmul/matmul-blocks-simd.h"
