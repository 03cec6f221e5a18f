// SPDX-License-Identifier: Apache-2.0

// IQ3_XXS: 256 weights in 8 groups of 32, w = d × (2 s + 1) / 4 × v. 4 weights have an index; a group has a word with 7
// signs for each 8 weights, and s.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 98
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/grid.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 98, l = k & 255;
    const uint i = read_word(second, block + 2 + l / 4), word = read_word(second, block + 66 + l / 32 * 4);
    const uint signs = word >> (l & 16) / 8 * 7;

    return codes(uvec4(with_signs(uvec2(grid_four(i & 255), grid_four(i >> 8 & 255)), all_signs(signs)),
                       with_signs(uvec2(grid_four(i >> 16 & 255), grid_four(i >> 24)), all_signs(signs >> 7))),
                 read_half(second, block) * float(2 * (word >> 28) + 1) * 0.25, 0.0);
}
