// SPDX-License-Identifier: Apache-2.0

// IQ1_S: 256 weights in 8 groups of 32, w = d × (2 s + 1) × (v ± 1/8). 8 weights have an index of 11 bits.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 50
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/iq1.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 50, l = k & 255;
    const uint low = read_word(second, block + 2 + l / 8), word = read_word(second, block + 34 + l / 32 * 2);
    const uint high = word >> (l & 16) / 8 * 3, sign = word >> 12 & 8;

    return codes(uvec4(iq1_eighths(low, (high & 7) | sign), iq1_eighths(low >> 8, (high >> 3 & 7) | sign)),
                 read_half(second, block) * float(2 * (word >> 12 & 7) + 1) * 0.125, 0.0);
}
