// SPDX-License-Identifier: Apache-2.0
#ifndef HALF_GLSL
#define HALF_GLSL

// Converts floats to 16-bit floats.
//
// The rounding of packHalf2x16() is not specified; these functions round to nearest even, as the CPU does.

uint f16_bits(float x)
{
    const uint u = floatBitsToUint(x), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    const uint r = a - 0x38000000u;
    // For results below the normal range, adding 0.5 makes the addition round at the last digit of binary16.
    const uint small = floatBitsToUint(uintBitsToFloat(a) + 0.5) - 0x3f000000u;
    const uint normal = (r + 0xfffu + (r >> 13 & 1u)) >> 13;

    if (a > 0x7f800000u)
        return sign | 0x7e00u | (a >> 13 & 0x3ffu);
    return sign | (a >= 0x477ff000u ? 0x7c00u : a >= 0x38800000u ? normal : small);
}

uint bf16_bits(float x)
{
    const uint u = floatBitsToUint(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return u >> 16 | 64u;
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

// Returns two neighboring elements in one word.
uint f16_pair(vec2 x)
{
    return f16_bits(x.x) | f16_bits(x.y) << 16;
}

uint bf16_pair(vec2 x)
{
    return bf16_bits(x.x) | bf16_bits(x.y) << 16;
}

vec2 bf16_unpack(uint u)
{
    return vec2(uintBitsToFloat(u << 16), uintBitsToFloat(u & 0xffff0000u));
}

#endif
