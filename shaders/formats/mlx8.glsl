// SPDX-License-Identifier: Apache-2.0

// MLX8 of libinfer/backend/joined.h: 32 weights, w = d × q + m with floats d and m and bytes q.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 40

#include "formats/parts/block.glsl"
#include "formats/parts/bytes.glsl"
#include "formats/parts/low.glsl"
#include "formats/parts/whole.glsl"

float weight_in_block(uint at, uint l)
{
    precise float product = weight_float(at) * float(weight_u8(at + 8 + l));
    precise float sum = product + weight_float(at + 4);

    return sum;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 40;

    return scaled_bytes(read_bytes(second, block + 8 + (k & 16), false), read_float(second, block),
                        -read_float(second, block + 4));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 10, false);
    chunk c;

    c.scale = uintBitsToFloat(words[0]);
    c.low = -uintBitsToFloat(words[1]);
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] = words[i + 2];
    return c;
}
