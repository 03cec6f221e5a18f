/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Multiplies bytes with usdot (Armv8.6 I8MM). Include it after simd-neon.h. */

/* Adds to each lane of acc the four products of unsigned bytes of u and signed bytes of s. */
static inline vi vi_dot_us(vi acc, vi u, vi s)
{
    return vusdotq_s32(acc, vreinterpretq_u8_s32(u), vreinterpretq_s8_s32(s));
}
