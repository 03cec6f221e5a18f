/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts floats to and from IEEE binary16, bfloat16 and E4M3 in plain C, rounding to nearest
 * even. Reference kernels and loaders use these functions. */

#include <stdint.h>
#include <string.h>

static inline float half_from_bits_f32(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t half_bits_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static inline float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exp = h >> 10 & 0x1f, man = h & 0x3ff;

    if (exp == 31)
        return half_from_bits_f32(sign | 0x7f800000 | man << 13);
    if (exp == 0) {
        if (man == 0)
            return half_from_bits_f32(sign);
        exp = 113; /* subnormal: shift until the hidden bit appears */
        while (!(man & 0x400)) {
            man <<= 1;
            exp--;
        }
        return half_from_bits_f32(sign | exp << 23 | (man & 0x3ff) << 13);
    }
    return half_from_bits_f32(sign | (exp + 112) << 23 | man << 13);
}

static inline uint16_t f16_from_f32(float f)
{
    const uint32_t u = half_bits_f32(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    uint32_t shift, man, r, half;

    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x33000001)
        return (uint16_t)sign;
    if (a >= 0x38800000) {
        r = a - 0x38000000;
        return (uint16_t)(sign | ((r + 0xfff + (r >> 13 & 1)) >> 13));
    }
    shift = 126 - (a >> 23); /* 14..24: subnormal result */
    man = (a & 0x7fffff) | 0x800000;
    r = man >> shift;
    half = 1u << (shift - 1);
    if ((man & ((1u << shift) - 1)) > half || ((man & ((1u << shift) - 1)) == half && (r & 1)))
        r++;
    return (uint16_t)(sign | r);
}

static inline float bf16_to_f32(uint16_t h)
{
    return half_from_bits_f32((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float f)
{
    const uint32_t u = half_bits_f32(f);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Converts a number from E4M3. The format E4M3 has 4 bits of exponent, 3 bits of fraction, and no
 * infinity. Its magnitudes are 0 and 2^-9 … 448; a byte with all seven low bits set is NaN. */
static inline float e4m3_to_f32(uint8_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x80) << 24, rest = x & 0x7f;

    if (rest == 0x7f)
        return half_from_bits_f32(sign | 0x7fc00000);
    if (rest < 8)
        return half_from_bits_f32(sign | half_bits_f32((float)rest * 0x1p-9f));
    return half_from_bits_f32(sign | (rest + 960) << 20);
}

/* Converts a float to E4M3. Magnitudes above 448 and NaN become 448, with their sign. The function
 * has no branches, so that compilers can vectorize it. */
static inline uint8_t e4m3_from_f32(float f)
{
    const uint32_t u = half_bits_f32(f), sign = u >> 24 & 0x80, top = 0x43e00000;
    const uint32_t a = (u & 0x7fffffff) > top ? top : u & 0x7fffffff;
    /* Adding 2^14 rounds to multiples of 2^-9, which is the last bit of E4M3 numbers below 2^-6. */
    const uint32_t below = half_bits_f32(half_from_bits_f32(a) + 0x1p14f) & 0xf;
    const uint32_t normal = ((a + 0x7ffff + (a >> 20 & 1)) >> 20) - 960;

    return (uint8_t)(sign | (a < 0x3c800000 ? below : normal));
}
