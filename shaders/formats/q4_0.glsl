// SPDX-License-Identifier: Apache-2.0

// Q4_0: 32 weights, w = d × (q - 8).

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 18

#include "formats/parts/nibbles.glsl"

float weight_in_block(uint at, uint l)
{
    return weight_half(at) * float(int(weight_nibble(at + 2, l)) - 8);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 18;
    const float scale = read_half(second, block);

    return scaled_bytes(read_nibbles(second, block + 2, k), scale, 8.0 * scale);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 5, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x;
    c.low = 8.0 * c.scale;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i] >> 16 | words[i + 1] << 16);
    return c;
}
