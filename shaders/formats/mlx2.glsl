// SPDX-License-Identifier: Apache-2.0

// MLX2: 128 weights of 2 bits, w = d × q + m.

#define BLOCK_ELEMS 128
#define BLOCK_BYTES 36
#define CHUNKS 2
#define SUMS 2

#include "formats/parts/pairs.glsl"
#include "formats/parts/low.glsl"
#include "formats/parts/whole.glsl"

struct head {
    vec2 scales;
};

head read_head(bool second, uint at)
{
    return head(unpackHalf2x16(texel(second, at / 16)[at / 4 & 3]));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    chunk c;

    c.scale = h.scales.x;
    c.low = -h.scales.y;
    split_codes(c, read_words(second, at + 4 + 16 * i_chunk, 4, false));
    return c;
}

float weight_in_block(uint at, uint l)
{
    const uint q = weight_u8(at + 4 + l / 16 * 4 + l % 4) >> (l / 4 % 4 * 2) & 3;
    precise float product = weight_half(at) * float(q);
    precise float sum = product + weight_half(at + 2);

    return sum;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 128 * 36;
    const vec2 d = unpackHalf2x16(read_word(second, block));

    return scaled_codes(read_word(second, block + 4 + (k & 127) / 4), d.x, -d.y);
}
