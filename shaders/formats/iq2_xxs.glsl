// SPDX-License-Identifier: Apache-2.0

// IQ2_XXS: 256 weights in 8 groups of 32, w = d × (2 s + 1) / 8 × v. A group has 4 indices and a word with 7 signs for
// each of them, and s.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 66
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/grid.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 66;
    const uint[WORDS_MAX] words = read_words(second, block + 2 + (k / 32 & 7) * 8, 2, false);
    const uint indices = words[0] >> (k & 16), signs = words[1] >> (k & 16) / 8 * 7;

    return codes(uvec4(with_signs(grid_eight(indices & 255), all_signs(signs)),
                       with_signs(grid_eight(indices >> 8 & 255), all_signs(signs >> 7))),
                 read_half(second, block) * float(2 * (words[1] >> 28) + 1) * 0.125, 0.0);
}
