// SPDX-License-Identifier: Apache-2.0

// TQ1_0: 256 weights, w = d × (q - 1), q = 0, 1 or 2. A byte has 5 of them.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 54
#define D_AT 52

#include "formats/parts/ternary.glsl"

// Returns the byte of weight @l, and its digit.
uvec2 ternary_place(uint l)
{
    if (l < 160)
        return uvec2(l & 31, l / 32);
    if (l < 240)
        return uvec2(32 + (l & 15), (l - 160) / 16);
    return uvec2(48 + (l & 3), (l - 240) / 4);
}

// Returns digit @n (0 is the highest) of each of 4 bytes. The bytes are processed as two pairs of 16-bit
// numbers.
uint ternary_digits(uint word, uint n)
{
    const uint power = n < 2 ? 1 + 2 * n : n == 2 ? 9 : n == 3 ? 27 : 81;
    const uint even = ((word & 0x00ff00ff) * power & 0x00ff00ff) * 3;
    const uint odd = ((word >> 8 & 0x00ff00ff) * power & 0x00ff00ff) * 3;

    return (even >> 8 & 0x00030003) | (odd & 0x03000300);
}

float weight_in_block(uint at, uint l)
{
    const uvec2 place = ternary_place(l);
    const uint q = ternary_digits(weight_u8(at + place.x), place.y);

    return weight_half(at + 52) * float(int(q) - 1);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 54, l = k & 255;
    const float scale = read_half(second, block + 52);
    const uvec2 place = ternary_place(l);
    const uvec4 q = read_bytes(second, block + place.x, false);
    uvec4 digits;

    if (l < 240)
        digits = uvec4(ternary_digits(q.x, place.y), ternary_digits(q.y, place.y),
                       ternary_digits(q.z, place.y), ternary_digits(q.w, place.y));
    else
        digits = uvec4(ternary_digits(q.x, 0), ternary_digits(q.x, 1), ternary_digits(q.x, 2),
                       ternary_digits(q.x, 3));
    return scaled_bytes(digits, scale, scale);
}

// The first 5 groups are digits of the first 32 bytes. Each half of the other groups is a digit of the next 16
// bytes, except that the last half has 4 digits of the last 4 bytes.
chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const bool is_first = i_chunk < 5;
    const uint[WORDS_MAX] words = read_words(second, is_first ? at : at + 32, 8, false);
    chunk c;

    c.scale = h.scale;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const uint part = 2 * (i_chunk - 5) + i / 4;

        if (is_first)
            c.words[i] = ternary_digits(words[i], i_chunk);
        else if (part < 5)
            c.words[i] = ternary_digits(words[i % 4], part);
        else
            c.words[i] = ternary_digits(words[4], i % 4);
    }
    return c;
}
