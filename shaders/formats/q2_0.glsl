// SPDX-License-Identifier: Apache-2.0

// Q2_0: 64 weights of 2 bits, w = d × (q - 1).

#define BLOCK_ELEMS 64
#define BLOCK_BYTES 18
#define SUMS 1

#include "formats/parts/codes.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 64 * 18, word = read_word(second, block + 2 + (k & 63) / 4);
    // Each byte has 4 numbers, which are moved to 4 bytes.
    const uvec4 bytes = uvec4(word, word >> 8, word >> 16, word >> 24) & 0xff;
    const uvec4 pairs = (bytes | bytes << 12) & 0x000f000f;

    return codes(bytes_less((pairs | pairs << 6) & 0x03030303, 1), read_half(second, block), 0.0);
}
