/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The operations of matmul-vec.h on 256-bit vectors, for AVX2 and AVX-VNNI
 *
 * Each of the two defines its own v_dot and v_dot_s8.
 */

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VEC_N   8
#define TILE_FM 6
#define TILE_FV 2

typedef __m256i v_int;
typedef __m256 v_flt;

#define v_low32(a, b)  _mm256_unpacklo_epi32(a, b)
#define v_high32(a, b) _mm256_unpackhi_epi32(a, b)
#define v_low64(a, b)  _mm256_unpacklo_epi64(a, b)
#define v_high64(a, b) _mm256_unpackhi_epi64(a, b)
#define v_and(a, b)    _mm256_and_si256(a, b)
#define v_or(a, b)     _mm256_or_si256(a, b)
#define v_xor(a, b)    _mm256_xor_si256(a, b)
#define v_add(a, b)    _mm256_add_epi32(a, b)
#define v_mul(a, b)    _mm256_mullo_epi32(a, b)
#define v_shr(a, n)    _mm256_srli_epi32(a, (int)(n))
#define v_shl(a, n)    _mm256_slli_epi32(a, (int)(n))
#define v_sar(a, n)    _mm256_srai_epi32(a, (int)(n))
#define v_set(u)       _mm256_set1_epi32((int)(u))
#define v_zero()       _mm256_setzero_si256()
#define v_load(p)      _mm256_loadu_si256((const void *)(p))
#define v_store(p, v)  _mm256_storeu_si256((void *)(p), v)
#define v_setf(f)      _mm256_set1_ps(f)
#define v_loadf(p)     _mm256_loadu_ps(p)
#define v_storef(p, v) _mm256_storeu_ps(p, v)
#define v_addf(a, b)   _mm256_add_ps(a, b)
#define v_mulf(a, b)   _mm256_mul_ps(a, b)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_to_float(v)  _mm256_cvtepi32_ps(v)
#define v_bcastf(p)    _mm256_broadcast_ss(p)

static inline v_int v_bcast(const void *p)
{
    int32_t u;

    __builtin_memcpy(&u, p, 4);
    return _mm256_set1_epi32(u);
}

static inline v_int v_rows16(const uint8_t *p, size_t stride)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
                                   _mm_loadu_si128((const void *)(p + 4 * stride)), 1);
}

static inline v_flt v_from_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline v_flt v_from_f16_low(v_int v)
{
    const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);

    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
