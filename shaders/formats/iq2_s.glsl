// SPDX-License-Identifier: Apache-2.0

// IQ2_S: 256 weights in 16 groups of 16, w = d × (2 s + 1) / 8 × v. 8 weights have an index of 10 bits and 8 signs.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 82
#define SUMS 2

#include "formats/parts/codes.glsl"
#include "formats/parts/grid.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 82, l = k & 255;
    const uint low = read_word(second, block + 2 + l / 8), signs = read_word(second, block + 34 + l / 8);
    const uint high = read_byte(second, block + 66 + l / 32) >> (l & 16) / 4;
    const uint s = read_byte(second, block + 74 + l / 32) >> (l & 16) / 4 & 15;

    return codes(uvec4(with_signs(grid_eight((low & 255) | (high & 3) << 8), signs),
                       with_signs(grid_eight((low >> 8 & 255) | (high & 12) << 6), signs >> 8)),
                 read_half(second, block) * float(2 * s + 1) * 0.125, 0.0);
}
