/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the operations of matmul-vec.h on 128-bit vectors of AArch64.
 *
 * matmul-neon.c, matmul-dotprod.c and matmul-i8mm.c define the size of a tile and their own v_dot.
 * All use signed weights.
 */

#include <arm_neon.h>
#include <stddef.h>

#define VEC_N               4
#define VEC_DIRECT          0
#define VEC_PREPARE         0
#define VEC_S8              1
#define TILE_FM             4
#define TILE_FV             4
#define v_dot_s8(sum, w, a) v_dot(sum, w, a)

typedef int32x4_t v_int;
typedef float32x4_t v_flt;

#define v_u32(v)       vreinterpretq_u32_s32(v)
#define v_s32(v)       vreinterpretq_s32_u32(v)
#define v_low32(a, b)  vzip1q_s32(a, b)
#define v_high32(a, b) vzip2q_s32(a, b)
#define v_and(a, b)    vandq_s32(a, b)
#define v_or(a, b)     vorrq_s32(a, b)
#define v_xor(a, b)    veorq_s32(a, b)
#define v_add(a, b)    vaddq_s32(a, b)
#define v_mul(a, b)    vmulq_s32(a, b)
#define v_shr(a, n)    v_s32(vshlq_u32(v_u32(a), vdupq_n_s32(-(int)(n))))
#define v_shl(a, n)    vshlq_s32(a, vdupq_n_s32((int)(n)))
#define v_sar(a, n)    vshlq_s32(a, vdupq_n_s32(-(int)(n)))
#define v_set(u)       vdupq_n_s32((int)(u))
#define v_zero()       vdupq_n_s32(0)
#define v_setf(f)      vdupq_n_f32(f)
#define v_loadf(p)     vld1q_f32(p)
#define v_storef(p, v) vst1q_f32(p, v)
#define v_addf(a, b)   vaddq_f32(a, b)
#define v_mulf(a, b)   vmulq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_to_float(v)  vcvtq_f32_s32(v)
#define v_bits(v)      vreinterpretq_f32_s32(v)
#define v_bcastf(p)    vld1q_dup_f32(p)

static inline v_int v_low64(v_int a, v_int b)
{
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

static inline v_int v_high64(v_int a, v_int b)
{
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

static inline v_int v_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

static inline void v_store(void *p, v_int v)
{
    vst1q_u8(p, vreinterpretq_u8_s32(v));
}

static inline v_int v_bcast(const void *p)
{
    int32_t u;

    __builtin_memcpy(&u, p, 4);
    return vdupq_n_s32(u);
}

static inline v_int v_rows16(const uint8_t *p, size_t stride)
{
    (void)stride;
    return v_load(p);
}

static inline v_int v_table16(v_int a, const uint8_t *table)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_s32(a)));
}

static inline v_int v_from_u8(const uint8_t *p)
{
    uint32_t u;

    __builtin_memcpy(&u, p, 4);
    return v_s32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(u)))));
}

static inline v_flt v_from_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline v_flt v_from_f16_low(v_int v)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v_u32(v))));
}
