// SPDX-License-Identifier: Apache-2.0

// IQ3_S: 256 weights in 8 groups of 32, w = d × (2 s + 1) × v. 4 weights have an index of 9 bits and 4 signs.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 110
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/grid.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 110, l = k & 255;
    const uint low = read_word(second, block + 2 + l / 4), signs = read_word(second, block + 74 + l / 8);
    const uint high = read_byte(second, block + 66 + l / 32) >> (l & 16) / 4;
    const uint s = read_byte(second, block + 106 + l / 64) >> l / 32 % 2 * 4 & 15;

    return codes(uvec4(with_signs(uvec2(grid_four((low & 255) | (high & 1) << 8),
                                        grid_four((low >> 8 & 255) | (high & 2) << 7)), signs),
                       with_signs(uvec2(grid_four((low >> 16 & 255) | (high & 4) << 6),
                                        grid_four(low >> 24 | (high & 8) << 5)), signs >> 8)),
                 read_half(second, block) * float(2 * s + 1), 0.0);
}
