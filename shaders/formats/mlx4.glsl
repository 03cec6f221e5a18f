// SPDX-License-Identifier: Apache-2.0

// MLX4 of libinfer/backend/joined.h: 32 weights, w = d × q + m with floats d and m and codes q of 4 bits.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 24

#include "formats/parts/nibbles.glsl"

float weight_in_block(uint at, uint l)
{
    precise float product = weight_float(at) * float(weight_nibble(at + 8, l));
    precise float sum = product + weight_float(at + 4);

    return sum;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 24;

    return scaled_bytes(read_nibbles(second, block + 8, k), read_float(second, block),
                        -read_float(second, block + 4));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    chunk c;

    c.scale = uintBitsToFloat(words[0]);
    c.low = -uintBitsToFloat(words[1]);
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 2]);
    return c;
}
