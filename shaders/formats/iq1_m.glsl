// SPDX-License-Identifier: Apache-2.0

// IQ1_M: 256 weights in 16 groups of 16, w = d × (2 s + 1) × (v ± 1/8). 8 weights have an index of 11 bits and a sign.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 56
#define SUMS 2

#include "formats/parts/codes.glsl"
#include "formats/parts/iq1.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 56, l = k & 255;
    const uint low = read_word(second, block + l / 8), high = read_byte(second, block + 32 + l / 16);
    const uint[WORDS_MAX] words = read_words(second, block + 48, 2, false); // 4 numbers of 16 bits
    const uvec2 tops = uvec2(words[0], words[1]) >> 12 & 0x000f000f;
    const uint d = (tops.x & 15) | tops.x >> 12 | (tops.y & 15) << 8 | tops.y >> 16 << 12;
    const uint s = (l < 128 ? words[0] : words[1]) >> (l & 64) / 4 + l / 16 % 4 * 3 & 7;

    return codes(uvec4(iq1_eighths(low, high), iq1_eighths(low >> 8, high >> 4)),
                 unpackHalf2x16(d).x * float(2 * s + 1) * 0.125, 0.0);
}
