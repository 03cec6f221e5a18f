/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies bytes with sdot (Armv8.2 DotProd). Include it after simd-neon.h. */

/* Adds to each lane of acc the four products of unsigned bytes of u and signed bytes of s. sdot
 * multiplies signed bytes, so it gets u - 128 instead of u, and 128 times the sum of s is added.
 * This addend depends only on s, so loops that multiply several vectors by s compute it once. */
static inline vi vi_dot_us(vi acc, vi u, vi s)
{
    const int8x16_t s8 = vreinterpretq_s8_s32(s);
    const vi half = vdotq_s32(vdupq_n_s32(0), s8, vdupq_n_s8(64));
    const int8x16_t u8 = vreinterpretq_s8_s32(veorq_s32(u, vdupq_n_s32((int)0x80808080)));

    return vaddq_s32(vdotq_s32(acc, u8, s8), vshlq_n_s32(half, 1));
}
