// SPDX-License-Identifier: Apache-2.0

// Q5_1: 32 weights, w = d × q + m.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 24

#include "formats/parts/nibbles.glsl"
#include "formats/parts/fifth.glsl"

float weight_in_block(uint at, uint l)
{
    precise float product = weight_half(at) * float(weight_nibble(at + 8, l) | weight_high(at + 4, l));
    precise float sum = product + weight_half(at + 2);

    return sum;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 24;

    return scaled_bytes(read_nibbles(second, block + 8, k) | read_high_bits(second, block + 4, k),
                        read_half(second, block), -read_half(second, block + 2));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    const vec2 d = unpackHalf2x16(words[0]);
    chunk c;

    c.scale = d.x;
    c.low = -d.y;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 2]);
    add_high_bits(c, words[1]);
    return c;
}
