// SPDX-License-Identifier: Apache-2.0

// Q1_0: 128 weights, w = d or -d.

#define BLOCK_ELEMS 128
#define BLOCK_BYTES 18
#define SUMS 1

#include "formats/parts/codes.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 128 * 18, bits = read_word(second, (block + 2 + (k & 127) / 8) & ~1u);
    const uvec4 q = uvec4(spread_bits(bits), spread_bits(bits >> 4), spread_bits(bits >> 8), spread_bits(bits >> 12));

    return codes(bytes_less(2 * q, 1), read_half(second, block), 0.0);
}
