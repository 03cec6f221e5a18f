// SPDX-License-Identifier: Apache-2.0

// Q8_0: 32 weights, w = d × q.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 34

#include "formats/parts/block.glsl"
#include "formats/parts/whole.glsl"

float weight_in_block(uint at, uint l)
{
    return weight_half(at) * float(bitfieldExtract(int(weight_u8(at + 2 + l)), 0, 8));
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 34;
    const float scale = read_half(second, block);
    // 128 is added to each q and subtracted from each product.
    const uvec4 q = read_bytes(second, block + 2 + (k & 16), false) ^ 0x80808080;
    vec4 run[4];

    [[unroll]] for (uint i = 0; i < 4; i++)
        run[i] = scale * (bytes_of(q[i]) - 128.0);
    return run;
}

#define QUAD_UNIT vec4(1.0)
#define DOT_UNIT SIGNED_UNIT

vec4 quad(chunk c, uint j)
{
    return signed_floats(c.words[j]);
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale * dot_x;

    return a;
}

chunk read_chunk(bool second, head h, uint at, uint i)
{
    const uint[WORDS_MAX] words = read_words(second, at, 9, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x * (1.0 / SIGNED_UNIT);
    c.low = 0.0;
    [[unroll]] for (uint j = 0; j < 8; j++)
        c.words[j] = words[j] >> 16 | words[j + 1] << 16;
    return c;
}
