/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the vector operations that elem-simd.h and attn-simd.h use: vectors of 8 floats,
 * implemented with AVX2 and FMA. */

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vf;
typedef __m256i vi; /* 8 int32, or 32 bytes */

#define VF_N     8u /* floats per vector */
#define ATTN_MR  6u /* rows × vectors of a register tile: 12 of 16 registers */
#define ATTN_NR  2u
#define ATTN_NR2 4u /* vectors per row in a tile of two rows */

/* Tiles for Q8_0. Scores: MR rows × NR vectors, each with an integer sum and a float sum. Values:
 * VR rows × 2 vectors, each with sums for the high and for the low bytes of the weights. */
#define ATTN_Q8_MR 2u
#define ATTN_Q8_NR 2u
#define ATTN_Q8_VR 2u

static inline __m256i vf_mask(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* Loads the first @n ≤ VF_N floats; the rest is 0. */
static inline vf vf_load_n(const float *p, uint32_t n)
{
    return _mm256_maskload_ps(p, vf_mask(n));
}

static inline void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    _mm256_maskstore_ps(p, vf_mask(n), v);
}

/* Loads n ≤ 8 F16 numbers; the rest is 0. */
static inline __m128i load_halves(const uint16_t *p, uint32_t n)
{
    uint16_t h[8] = {0};

    memcpy(h, p, n * sizeof(h[0]));
    return _mm_loadu_si128((const __m128i *)h);
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vf vf_load_f16_n(const uint16_t *p, uint32_t n)
{
    return _mm256_cvtph_ps(load_halves(p, n));
}

/* Moves the bits of E4M3 numbers to their places in F16 numbers, and converts these to floats. */
static inline vf fp8_widen(__m128i x)
{
    const __m128i h = _mm_slli_epi16(_mm_cvtepi8_epi16(x), 7);

    return _mm256_cvtph_ps(_mm_and_si128(h, _mm_set1_epi16((short)0xbf80)));
}

/* Loads VF_N numbers in E4M3 and divides them by 256. NaN becomes 480 / 256. */
static inline vf vf_load_fp8(const uint8_t *p)
{
    return fp8_widen(_mm_loadl_epi64((const __m128i *)p));
}

static inline vf vf_load_fp8_n(const uint8_t *p, uint32_t n)
{
    uint8_t x[8] = {0};

    memcpy(x, p, n);
    return vf_load_fp8(x);
}

static inline vf bf16_widen(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    return bf16_widen(_mm_loadu_si128((const __m128i *)p));
}

static inline vf vf_load_bf16_n(const uint16_t *p, uint32_t n)
{
    return bf16_widen(load_halves(p, n));
}

static inline void vf_store_f16_n(uint16_t *p, vf v, uint32_t n)
{
    uint16_t h[8];

    _mm_storeu_si128((__m128i *)h, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    memcpy(p, h, n * sizeof(h[0]));
}

static inline vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* Returns a × b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* Returns the larger operand, or @b if one of them is NaN. A clamp that passes its variable as @b
 * therefore keeps NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Returns a × 2^n for whole n in -151 … 129. Multiplies in two steps, so that both factors are
 * normal numbers. */
static inline vf vf_scale2(vf a, vf n)
{
    const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
    const __m256i rest = _mm256_sub_epi32(i, half), bias = _mm256_set1_epi32(127);
    const __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 g = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));

    return _mm256_mul_ps(_mm256_mul_ps(a, f), g);
}

/* Swaps neighboring elements: 1, 0, 3, 2, … */
static inline vf vf_swap(vf a)
{
    return _mm256_permute_ps(a, 0xb1);
}

/* Interleaves the elements: a0, b0, a1, b1, … in two vectors. */
static inline void vf_zip(vf a, vf b, vf *ret_first, vf *ret_second)
{
    const vf low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);

    *ret_first = _mm256_permute2f128_ps(low, high, 0x20);
    *ret_second = _mm256_permute2f128_ps(low, high, 0x31);
}

static inline float vf_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float vf_top(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline bool vf_any_greater(vf a, vf b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
}

static inline vf vf_from_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}

static inline vi vi_from_bits(vf a)
{
    return _mm256_castps_si256(a);
}

static inline vi vi_load(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline vi vi_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

/* Returns a × 2^8 in each lane. */
static inline vi vi_shift8(vi a)
{
    return _mm256_slli_epi32(a, 8);
}

/* These functions return the low and the high 4 bits of each byte. */
static inline vi vi_low4(vi a)
{
    return _mm256_and_si256(a, _mm256_set1_epi8(15));
}

static inline vi vi_high4(vi a)
{
    return vi_low4(_mm256_srli_epi16(a, 4));
}

/* Returns a table of 16 bytes, in which vi_lookup() looks up bytes below 16. */
static inline vi vi_table(const int8_t *bytes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

static inline vi vi_lookup(vi table, vi i)
{
    return _mm256_shuffle_epi8(table, i);
}

static inline vf vi_to_float(vi a)
{
    return _mm256_cvtepi32_ps(a);
}

/* Adds to each lane of acc the four products of unsigned bytes of u and signed bytes of s. Even and
 * odd bytes are multiplied separately, because sums of two products do not fit in 16 bits. */
static inline vi vi_dot_us(vi acc, vi u, vi s)
{
    const vi u_even = _mm256_and_si256(u, _mm256_set1_epi16(255)), u_odd = _mm256_srli_epi16(u, 8);
    const vi s_even = _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8),
             s_odd = _mm256_srai_epi16(s, 8);

    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(u_even, s_even));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(u_odd, s_odd));
}

/* Rounds x to whole numbers 0 … 65535. Writes their VF_N high bytes to @hi, and their low bytes to
 * @lo. */
static inline void vf_to_bytes(uint8_t *hi, uint8_t *lo, vf x)
{
    /* The order within each half: 4 low bytes, 4 high bytes. */
    const vi order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                      4, 8, 12, 1, 5, 9, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    const vi bytes = _mm256_shuffle_epi8(_mm256_cvtps_epi32(x), order);
    const __m128i both =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));

    _mm_storel_epi64((__m128i *)lo, both);
    _mm_storel_epi64((__m128i *)hi, _mm_unpackhi_epi64(both, both));
}
