/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the vector operations that elem-simd.h and attn-simd.h use: vectors of 4 floats,
 * implemented with NEON. The products of bytes are in simd-dot-neon.h, simd-dot-dotprod.h and
 * simd-dot-i8mm.h. */

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t vf;
typedef int32x4_t vi; /* 4 int32, or 16 bytes */

#define VF_N     4u /* floats per vector */
#define ATTN_MR  6u /* rows × vectors of a register tile: 24 of 32 registers */
#define ATTN_NR  4u
#define ATTN_NR2 8u /* vectors per row in a tile of two rows */

/* Tiles for Q8_0. Scores: MR rows × NR vectors, each with an integer sum and a float sum. Values:
 * VR rows × 2 vectors, each with sums for the high and for the low bytes of the weights. */
#define ATTN_Q8_MR 4u
#define ATTN_Q8_NR 2u
#define ATTN_Q8_VR 4u

static inline vf vf_load(const float *p)
{
    return vld1q_f32(p);
}

/* Loads the first @n ≤ VF_N floats; the rest is 0. */
static inline vf vf_load_n(const float *p, uint32_t n)
{
    float f[4] = {0};

    memcpy(f, p, n * sizeof(f[0]));
    return vld1q_f32(f);
}

static inline void vf_store(float *p, vf v)
{
    vst1q_f32(p, v);
}

static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    float f[4];

    vst1q_f32(f, v);
    memcpy(p, f, n * sizeof(f[0]));
}

/* Loads n ≤ 4 F16 numbers; the rest is 0. */
static inline uint16x4_t load_halves(const uint16_t *p, uint32_t n)
{
    uint16_t h[4] = {0};

    memcpy(h, p, n * sizeof(h[0]));
    return vld1_u16(h);
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline vf vf_load_f16_n(const uint16_t *p, uint32_t n)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(load_halves(p, n)));
}

/* Loads n ≤ 4 numbers in E4M3 and divides them by 256, by moving their bits to their places in F16
 * numbers. NaN becomes 480 / 256. */
static inline vf vf_load_fp8_n(const uint8_t *p, uint32_t n)
{
    int8_t x[8] = {0};
    int16x4_t h;

    memcpy(x, p, n);
    h = vshl_n_s16(vget_low_s16(vmovl_s8(vld1_s8(x))), 7);
    return vcvt_f32_f16(vreinterpret_f16_s16(vand_s16(h, vdup_n_s16((int16_t)0xbf80))));
}

static inline vf vf_load_fp8(const uint8_t *p)
{
    return vf_load_fp8_n(p, VF_N);
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline vf vf_load_bf16_n(const uint16_t *p, uint32_t n)
{
    return vreinterpretq_f32_u32(vshll_n_u16(load_halves(p, n), 16));
}

static inline void vf_store_f16_n(uint16_t *p, vf v, uint32_t n)
{
    uint16_t h[4];

    vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32(v)));
    memcpy(p, h, n * sizeof(h[0]));
}

static inline vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}

static inline vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

/* Returns a × b + c, rounded once. */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* Returns the larger operand, or NaN if one of them is NaN. Clamps therefore keep NaN. */
static inline vf vf_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return vminq_f32(a, b);
}

static inline vf vf_round(vf a)
{
    return vrndnq_f32(a);
}

/* Returns a × 2^n for whole n in -151 … 129. Multiplies in two steps, so that both factors are
 * normal numbers. */
static inline vf vf_scale2(vf a, vf n)
{
    const int32x4_t i = vcvtq_s32_f32(n), half = vshrq_n_s32(i, 1);
    const int32x4_t rest = vsubq_s32(i, half), bias = vdupq_n_s32(127);
    const vf f = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const vf g = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));

    return vmulq_f32(vmulq_f32(a, f), g);
}

/* Swaps neighboring elements: 1, 0, 3, 2. */
static inline vf vf_swap(vf a)
{
    return vrev64q_f32(a);
}

/* Interleaves the elements: a0, b0, a1, b1, … in two vectors. */
static inline void vf_zip(vf a, vf b, vf *ret_first, vf *ret_second)
{
    *ret_first = vzip1q_f32(a, b);
    *ret_second = vzip2q_f32(a, b);
}

static inline float vf_sum(vf a)
{
    return vaddvq_f32(a);
}

static inline float vf_top(vf a)
{
    return vmaxvq_f32(a);
}

static inline bool vf_any_greater(vf a, vf b)
{
    return vmaxvq_u32(vcgtq_f32(a, b)) != 0;
}

static inline vf vf_from_bits(vi a)
{
    return vreinterpretq_f32_s32(a);
}

static inline vi vi_from_bits(vf a)
{
    return vreinterpretq_s32_f32(a);
}

static inline vi vi_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

static inline vi vi_set1(int32_t x)
{
    return vdupq_n_s32(x);
}

static inline vi vi_and(vi a, vi b)
{
    return vandq_s32(a, b);
}

static inline vi vi_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}

/* Returns a × 2^8 in each lane. */
static inline vi vi_shift8(vi a)
{
    return vshlq_n_s32(a, 8);
}

/* These functions return the low and the high 4 bits of each byte. */
static inline vi vi_low4(vi a)
{
    return vandq_s32(a, vdupq_n_s32(0x0f0f0f0f));
}

static inline vi vi_high4(vi a)
{
    return vi_low4(vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), 4)));
}

/* Returns a table of 16 bytes, in which vi_lookup() looks up bytes below 16. */
static inline vi vi_table(const int8_t *bytes)
{
    return vreinterpretq_s32_s8(vld1q_s8(bytes));
}

static inline vi vi_lookup(vi table, vi i)
{
    return vreinterpretq_s32_s8(vqtbl1q_s8(vreinterpretq_s8_s32(table), vreinterpretq_u8_s32(i)));
}

static inline vf vi_to_float(vi a)
{
    return vcvtq_f32_s32(a);
}

/* Rounds x to whole numbers 0 … 65535. Writes their VF_N high bytes to @hi, and their low bytes to
 * @lo. */
static inline void vf_to_bytes(uint8_t *hi, uint8_t *lo, vf x)
{
    const uint16x4_t i = vmovn_u32(vcvtnq_u32_f32(x));
    const uint16x8_t both = vcombine_u16(i, vshr_n_u16(i, 8));
    const uint8x8_t bytes = vmovn_u16(both);

    memcpy(lo, &bytes, 4);
    memcpy(hi, (const uint8_t *)&bytes + 4, 4);
}
