/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes matrix products with AVX-512 VNNI: 16 lanes, 32 registers.
 *
 * An int8 tile of 6 rows × 2 vectors keeps 12 integer and 12 float sums in registers.
 */

#include <immintrin.h>
#include <stddef.h>

#include "core/cpu.h"

#define VEC_N         16
#define VEC_S8        0
#define TILE_M        6
#define TILE_V        2
#define TILE_FM       12
#define TILE_FV       2
#define VEC_PAIRS     0
#define VEC_DIRECT    1
#define VEC_PREPARE   1
#define TILE_NAME(op) op##_avx512

typedef __m512i v_int;
typedef __m512 v_flt;

#define v_low32(a, b)       _mm512_unpacklo_epi32(a, b)
#define v_high32(a, b)      _mm512_unpackhi_epi32(a, b)
#define v_low64(a, b)       _mm512_unpacklo_epi64(a, b)
#define v_high64(a, b)      _mm512_unpackhi_epi64(a, b)
#define v_low8(a, b)        _mm512_unpacklo_epi8(a, b)
#define v_high8(a, b)       _mm512_unpackhi_epi8(a, b)
#define v_low16(a, b)       _mm512_unpacklo_epi16(a, b)
#define v_high16(a, b)      _mm512_unpackhi_epi16(a, b)
#define v_and(a, b)         _mm512_and_si512(a, b)
#define v_or(a, b)          _mm512_or_si512(a, b)
#define v_xor(a, b)         _mm512_xor_si512(a, b)
#define v_any(a)            (_mm512_test_epi32_mask(a, a) != 0)
#define v_add(a, b)         _mm512_add_epi32(a, b)
#define v_mul(a, b)         _mm512_mullo_epi32(a, b)
#define v_shr(a, n)         _mm512_srli_epi32(a, n)
#define v_shl(a, n)         _mm512_slli_epi32(a, n)
#define v_sar(a, n)         _mm512_srai_epi32(a, n)
#define v_shr16(a, n)       _mm512_srl_epi16(a, _mm_cvtsi32_si128((int)(n)))
#define v_shl16(a, n)       _mm512_sll_epi16(a, _mm_cvtsi32_si128((int)(n)))
#define v_set(u)            _mm512_set1_epi32((int)(u))
#define v_zero()            _mm512_setzero_si512()
#define v_load(p)           _mm512_loadu_si512(p)
#define v_store(p, v)       _mm512_storeu_si512(p, v)
#define v_setf(f)           _mm512_set1_ps(f)
#define v_loadf(p)          _mm512_loadu_ps(p)
#define v_storef(p, v)      _mm512_storeu_ps(p, v)
#define v_addf(a, b)        _mm512_add_ps(a, b)
#define v_mulf(a, b)        _mm512_mul_ps(a, b)
#define v_fma(a, b, c)      _mm512_fmadd_ps(a, b, c)
#define v_to_float(v)       _mm512_cvtepi32_ps(v)
#define v_bits(v)           _mm512_castsi512_ps(v)
#define v_bcastf(p)         _mm512_set1_ps(*(p))
#define v_dot_s8(sum, w, a) (sum)

/* Uses assembly because gcc 12 copies sums back and forth with the intrinsic. */
static inline v_int v_dot(v_int sum, v_int w, v_int a)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
    return sum;
}

static inline v_int v_bcast(const void *p)
{
    int32_t u;

    __builtin_memcpy(&u, p, 4);
    return _mm512_set1_epi32(u);
}

/* Returns a vector: byte i of each 16 bytes is byte order[i] of the same 16 bytes of @a. */
static inline v_int v_shuffle16(v_int a, const uint8_t order[16])
{
    return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(_mm_load_si128((const void *)order)));
}

/* Returns @a in lanes 0 … 7, and @b in the other lanes. */
static inline v_int v_eights(uint32_t a, uint32_t b)
{
    return _mm512_inserti64x4(v_set(a), _mm256_set1_epi32((int)b), 1);
}

/* Repeats 32-bit lane @n of each 16 bytes. */
static inline v_int v_quad(v_int a, unsigned n)
{
    return _mm512_shuffle_epi8(a, v_set(0x03020100 + 0x04040404 * n));
}

static inline v_int v_rows16(const uint8_t *p, size_t stride)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)p));

    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 4 * stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 8 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 12 * stride)), 3);
}

static inline v_int v_table16(v_int a, const uint8_t *table)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_load_si128((const void *)table)), a);
}

static inline v_int v_from_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}

static inline v_flt v_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline v_flt v_from_f16_low(v_int v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

static inline uint32_t v_top32(const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), magnitude);
    const __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude);
    const __m512i c = _mm512_max_epi32(a, b);
    __m256i d = _mm256_max_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    __m128i e = _mm_max_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));

    e = _mm_max_epi32(e, _mm_shuffle_epi32(e, 0x4e));
    e = _mm_max_epi32(e, _mm_shuffle_epi32(e, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(e);
}

static inline void v_quant32(const float *x, float f, int8_t *q, int32_t *nsum)
{
    const __m512 factor = _mm512_set1_ps(f);
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
    const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
    const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(a)),
                                                  _mm512_cvtepi32_epi8(b), 1);
    __m256i sum = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);

    _mm256_storeu_si256((__m256i *)q, bytes);
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
    nsum[0] = -_mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
    nsum[1] = -_mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
}

#include "backend/cpu/matmul/matmul-vec.h"

const struct matmul_ops matmul_avx512 = {
    .name = "avx512",
    .flags = CPU_AVX512 | CPU_AVX512_VNNI,
    .prepare_q8 = prepare_q8_avx512,
    .prepare_row8 = prepare_row8_avx512,
    .bitnet = bitnet_avx512,
    .blocks = matmul_blocks_avx512,
    .prepare_blocks = matmul_prepare_blocks_avx512,
    .kernels = KERNELS,
};
