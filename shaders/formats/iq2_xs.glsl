// SPDX-License-Identifier: Apache-2.0

// IQ2_XS: 256 weights in 16 groups of 16, w = d × (2 s + 1) / 8 × v. 8 weights have an index of 9 bits and 7 signs.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 74
#define SUMS 2

#include "formats/parts/codes.glsl"
#include "formats/parts/grid.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 74, l = k & 255;
    const uint two = read_word(second, block + 2 + l / 4);
    const uint s = read_byte(second, block + 66 + l / 32) >> (l & 16) / 4 & 15;

    return codes(uvec4(with_signs(grid_eight(two & 511), all_signs(two >> 9)),
                       with_signs(grid_eight(two >> 16 & 511), all_signs(two >> 25))),
                 read_half(second, block) * float(2 * s + 1) * 0.125, 0.0);
}
