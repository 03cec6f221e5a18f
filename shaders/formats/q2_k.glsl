// SPDX-License-Identifier: Apache-2.0

// Q2_K: 256 weights in 16 groups of 16, w = d × sc × q - dmin × mn.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 84
#define SUMS 2
#define HAS_LOW 1

#include "formats/parts/codes.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 84, l = k & 255;
    const uvec4 q = read_bytes(second, block + 16 + l / 128 * 32 + (l & 16), false);
    const uint group = read_byte(second, block + l / 16);
    const vec2 d = unpackHalf2x16(read_word(second, block + 80));

    return codes(q >> l / 32 % 4 * 2 & 0x03030303, d.x * float(group & 15), d.y * float(group >> 4));
}
