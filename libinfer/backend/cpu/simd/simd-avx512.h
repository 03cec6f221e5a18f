/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the vector operations that elem-simd.h and attn-simd.h use: vectors of 16 floats,
 * implemented with AVX-512. */

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

typedef __m512 vf;
typedef __m512i vi; /* 16 int32, or 64 bytes */

#define VF_N     16u /* floats per vector */
#define ATTN_MR  6u  /* rows × vectors of a register tile: 24 of 32 registers */
#define ATTN_NR  4u
#define ATTN_NR2 8u /* vectors per row in a tile of two rows */

/* Tiles for Q8_0. Scores: MR rows × NR vectors, each with an integer sum and a float sum. Values:
 * VR rows × 2 vectors, each with sums for the high and for the low bytes of the weights. */
#define ATTN_Q8_MR 6u
#define ATTN_Q8_NR 2u
#define ATTN_Q8_VR 4u

static inline __mmask16 vf_mask(uint32_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* Loads the first @n ≤ VF_N floats; the rest is 0. */
static inline vf vf_load_n(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(vf_mask(n), p);
}

static inline void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    _mm512_mask_storeu_ps(p, vf_mask(n), v);
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vf vf_load_f16_n(const uint16_t *p, uint32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf_mask(n), p));
}

/* Moves the bits of E4M3 numbers to their places in F16 numbers, and converts these to floats. */
static inline vf fp8_widen(__m128i x)
{
    const __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 7);

    return _mm512_cvtph_ps(_mm256_and_si256(h, _mm256_set1_epi16((short)0xbf80)));
}

/* Loads VF_N numbers in E4M3 and divides them by 256. NaN becomes 480 / 256. */
static inline vf vf_load_fp8(const uint8_t *p)
{
    return fp8_widen(_mm_loadu_si128((const __m128i *)p));
}

static inline vf vf_load_fp8_n(const uint8_t *p, uint32_t n)
{
    return fp8_widen(_mm_maskz_loadu_epi8(vf_mask(n), p));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    const __m256i h = _mm256_loadu_si256((const __m256i *)p);

    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline vf vf_load_bf16_n(const uint16_t *p, uint32_t n)
{
    const __m256i h = _mm256_maskz_loadu_epi16(vf_mask(n), p);

    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline void vf_store_f16_n(uint16_t *p, vf v, uint32_t n)
{
    _mm256_mask_storeu_epi16(p, vf_mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* Returns a × b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* Returns the larger operand, or @b if one of them is NaN. A clamp that passes its variable as @b
 * therefore keeps NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Returns a × 2^n for whole n in -151 … 129. */
static inline vf vf_scale2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}

/* Swaps neighboring elements: 1, 0, 3, 2, … */
static inline vf vf_swap(vf a)
{
    return _mm512_permute_ps(a, 0xb1);
}

/* Interleaves the elements: a0, b0, a1, b1, … in two vectors. */
static inline void vf_zip(vf a, vf b, vf *ret_first, vf *ret_second)
{
    const vi first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);

    *ret_first = _mm512_permutex2var_ps(a, first, b);
    *ret_second = _mm512_permutex2var_ps(a, _mm512_add_epi32(first, _mm512_set1_epi32(8)), b);
}

static inline float vf_sum(vf a)
{
    return _mm512_reduce_add_ps(a);
}

static inline float vf_top(vf a)
{
    return _mm512_reduce_max_ps(a);
}

static inline bool vf_any_greater(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0;
}

static inline vf vf_from_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

static inline vi vi_from_bits(vf a)
{
    return _mm512_castps_si512(a);
}

static inline vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

/* Returns a × 2^8 in each lane. */
static inline vi vi_shift8(vi a)
{
    return _mm512_slli_epi32(a, 8);
}

/* These functions return the low and the high 4 bits of each byte. */
static inline vi vi_low4(vi a)
{
    return _mm512_and_si512(a, _mm512_set1_epi8(15));
}

static inline vi vi_high4(vi a)
{
    return vi_low4(_mm512_srli_epi16(a, 4));
}

/* Returns a table of 16 bytes, in which vi_lookup() looks up bytes below 16. */
static inline vi vi_table(const int8_t *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)bytes));
}

static inline vi vi_lookup(vi table, vi i)
{
    return _mm512_shuffle_epi8(table, i);
}

static inline vf vi_to_float(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* Adds to each lane of acc the four products of unsigned bytes of u and signed bytes of s. */
static inline vi vi_dot_us(vi acc, vi u, vi s)
{
    /* This is assembly, because gcc 12 copies each sum of a tile back and forth if the intrinsic is
     * used. */
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s));
    return acc;
}

/* Rounds x to whole numbers 0 … 65535. Writes their VF_N high bytes to @hi, and their low bytes to
 * @lo. */
static inline void vf_to_bytes(uint8_t *hi, uint8_t *lo, vf x)
{
    const __m512i i = _mm512_cvtps_epi32(x);

    _mm_storeu_si128((__m128i *)hi, _mm512_cvtepi32_epi8(_mm512_srli_epi32(i, 8)));
    _mm_storeu_si128((__m128i *)lo, _mm512_cvtepi32_epi8(i));
}
