/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the operations of matmul-vec.h on 256-bit vectors, for AVX2 and AVX-VNNI.
 *
 * matmul-avx2.c and matmul-avxvnni.c each define their own v_dot and v_dot_s8.
 */

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VEC_N       8
#define VEC_DIRECT  1
#define VEC_PREPARE 1
#define TILE_FM     6
#define TILE_FV     2

typedef __m256i v_int;
typedef __m256 v_flt;

#define v_low32(a, b)  _mm256_unpacklo_epi32(a, b)
#define v_high32(a, b) _mm256_unpackhi_epi32(a, b)
#define v_low64(a, b)  _mm256_unpacklo_epi64(a, b)
#define v_high64(a, b) _mm256_unpackhi_epi64(a, b)
#define v_low8(a, b)   _mm256_unpacklo_epi8(a, b)
#define v_high8(a, b)  _mm256_unpackhi_epi8(a, b)
#define v_low16(a, b)  _mm256_unpacklo_epi16(a, b)
#define v_high16(a, b) _mm256_unpackhi_epi16(a, b)
#define v_and(a, b)    _mm256_and_si256(a, b)
#define v_or(a, b)     _mm256_or_si256(a, b)
#define v_xor(a, b)    _mm256_xor_si256(a, b)
#define v_any(a)       (!_mm256_testz_si256(a, a))
#define v_add(a, b)    _mm256_add_epi32(a, b)
#define v_mul(a, b)    _mm256_mullo_epi32(a, b)
#define v_shr(a, n)    _mm256_srli_epi32(a, (int)(n))
#define v_shl(a, n)    _mm256_slli_epi32(a, (int)(n))
#define v_sar(a, n)    _mm256_srai_epi32(a, (int)(n))
#define v_shr16(a, n)  _mm256_srl_epi16(a, _mm_cvtsi32_si128((int)(n)))
#define v_shl16(a, n)  _mm256_sll_epi16(a, _mm_cvtsi32_si128((int)(n)))
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
#define v_bits(v)      _mm256_castsi256_ps(v)
#define v_bcastf(p)    _mm256_broadcast_ss(p)

static inline v_int v_bcast(const void *p)
{
    int32_t u;

    __builtin_memcpy(&u, p, 4);
    return _mm256_set1_epi32(u);
}

/* Returns a vector: byte i of each 16 bytes is byte order[i] of the same 16 bytes of @a. */
static inline v_int v_shuffle16(v_int a, const uint8_t order[16])
{
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(_mm_load_si128((const void *)order)));
}

/* Repeats 32-bit lane @n of each 16 bytes. */
static inline v_int v_quad(v_int a, unsigned n)
{
    return _mm256_shuffle_epi8(a, v_set(0x03020100 + 0x04040404 * n));
}

static inline v_int v_rows16(const uint8_t *p, size_t stride)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
                                   _mm_loadu_si128((const void *)(p + 4 * stride)), 1);
}

static inline v_int v_rows32(const uint8_t *p, size_t stride)
{
    (void)stride;
    return _mm256_loadu_si256((const void *)p);
}

static inline v_int v_x32(const int8_t *q)
{
    return _mm256_loadu_si256((const void *)q);
}

static inline v_int v_x16(const int8_t *q)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)q));
}

#define v_pack16(a, b) _mm256_packs_epi32(a, b)
#define v_pair16(a)    _mm256_madd_epi16(a, _mm256_set1_epi16(1))
#define v_shuffle(a, b, n)                                                                         \
    _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), n))
#define v_even(a, b)    v_shuffle(a, b, 0x88)
#define v_odd(a, b)     v_shuffle(a, b, 0xdd)
#define v_firsts(a, b)  _mm256_permute2x128_si256(a, b, 0x20)
#define v_seconds(a, b) _mm256_permute2x128_si256(a, b, 0x31)

static inline v_int v_spread(v_int a, unsigned at, unsigned half)
{
    const __m256i bytes =
        _mm256_add_epi8(_mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101),
                        _mm256_set1_epi8((char)(at + 2 * half)));
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i rep = _mm256_and_si256(_mm256_shuffle_epi8(a, bytes), bit);

    return _mm256_and_si256(_mm256_cmpeq_epi8(rep, bit), _mm256_set1_epi8(0x10));
}

static inline v_int v_table16(v_int a, const uint8_t *table)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128((const void *)table)), a);
}

static inline v_int v_from_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
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

static inline void v_from_f16_two(v_int v, v_flt ret[2])
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i two = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, order), 0xd8);

    ret[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(two));
    ret[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(two, 1));
}

static inline uint32_t v_top32(const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i v[4];
    __m128i e;

    for (unsigned i = 0; i < 4; i++)
        v[i] = _mm256_and_si256(_mm256_loadu_si256((const void *)(x + 8 * i)), magnitude);
    v[0] = _mm256_max_epi32(_mm256_max_epi32(v[0], v[1]), _mm256_max_epi32(v[2], v[3]));
    e = _mm_max_epi32(_mm256_castsi256_si128(v[0]), _mm256_extracti128_si256(v[0], 1));
    e = _mm_max_epi32(e, _mm_shuffle_epi32(e, 0x4e));
    e = _mm_max_epi32(e, _mm_shuffle_epi32(e, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(e);
}

static inline void v_quant32(const float *x, float f, int8_t *q, int32_t *nsum)
{
    const __m256 factor = _mm256_set1_ps(f);
    __m256i v[4], a, b;
    __m128i sum;

    for (unsigned i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    for (unsigned i = 0; i < 2; i++) {
        sum = _mm_add_epi32(_mm256_castsi256_si128(_mm256_add_epi32(v[2 * i], v[2 * i + 1])),
                            _mm256_extracti128_si256(_mm256_add_epi32(v[2 * i], v[2 * i + 1]), 1));
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
        nsum[i] = -_mm_cvtsi128_si32(sum);
    }
    a = _mm256_packs_epi32(v[0], v[1]);
    b = _mm256_packs_epi32(v[2], v[3]);
    a = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b),
                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((void *)q, a);
}
