// SPDX-License-Identifier: Apache-2.0

// Q5_0: 32 weights, w = d × (q - 16).

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 22

#include "formats/parts/nibbles.glsl"
#include "formats/parts/fifth.glsl"

float weight_in_block(uint at, uint l)
{
    const uint q = weight_nibble(at + 6, l) | weight_high(at + 2, l);

    return weight_half(at) * float(int(q) - 16);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 22;
    const float scale = read_half(second, block);

    return scaled_bytes(read_nibbles(second, block + 6, k) | read_high_bits(second, block + 2, k), scale,
                        16.0 * scale);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x;
    c.low = 16.0 * c.scale;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 1] >> 16 | words[i + 2] << 16);
    add_high_bits(c, words[0] >> 16 | words[1] << 16);
    return c;
}
