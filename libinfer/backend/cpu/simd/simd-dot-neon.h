/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies bytes with NEON alone. Include it after simd-neon.h. */

/* Adds to each lane of acc the four products of unsigned bytes of u and signed bytes of s. Even and
 * odd bytes are multiplied separately in 16 bits, which are enough for each product. */
static inline vi vi_dot_us(vi acc, vi u, vi s)
{
    const uint16x8_t u16 = vreinterpretq_u16_s32(u);
    const int16x8_t s16 = vreinterpretq_s16_s32(s);
    const int16x8_t u_even = vreinterpretq_s16_u16(vandq_u16(u16, vdupq_n_u16(255)));
    const int16x8_t u_odd = vreinterpretq_s16_u16(vshrq_n_u16(u16, 8));

    acc = vpadalq_s16(acc, vmulq_s16(u_even, vshrq_n_s16(vshlq_n_s16(s16, 8), 8)));
    return vpadalq_s16(acc, vmulq_s16(u_odd, vshrq_n_s16(s16, 8)));
}
