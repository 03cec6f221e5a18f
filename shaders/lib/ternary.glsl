// SPDX-License-Identifier: Apache-2.0
#ifndef TERNARY_GLSL
#define TERNARY_GLSL

// Decodes the bytes of TQ1_0 blocks, in the format of libinfer/quant/block.h.

// Returns the byte of weight @l, and its digit.
uvec2 ternary_place(uint l)
{
    if (l < 160)
        return uvec2(l & 31, l / 32);
    if (l < 240)
        return uvec2(32 + (l & 15), (l - 160) / 16);
    return uvec2(48 + (l & 3), (l - 240) / 4);
}

// Returns digit @n (0 is the highest) of each of 4 bytes. The bytes are processed as two pairs of 16-bit
// numbers.
uint ternary_digits(uint word, uint n)
{
    const uint power = n < 2 ? 1 + 2 * n : n == 2 ? 9 : n == 3 ? 27 : 81;
    const uint even = ((word & 0x00ff00ff) * power & 0x00ff00ff) * 3;
    const uint odd = ((word >> 8 & 0x00ff00ff) * power & 0x00ff00ff) * 3;

    return (even >> 8 & 0x00030003) | (odd & 0x03000300);
}

#endif
