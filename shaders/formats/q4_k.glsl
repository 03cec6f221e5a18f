// SPDX-License-Identifier: Apache-2.0

// Q4_K: 256 weights in 8 groups, w = d × sc × q - dmin × mn.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 144

#include "formats/parts/k.glsl"

float weight_in_block(uint at, uint l)
{
    return weight_k(at, l, weight_u8(at + 16 + l / 64 * 32 + (l & 31)) >> (l / 32 % 2 * 4) & 15);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 144, group = k / 32 & 7;
    const uvec4 head = read_bytes(second, block, is_aligned);
    const vec2 d = unpackHalf2x16(head.x) * vec2(group_scale(head.yzw, group));
    const uvec4 q = read_bytes(second, block + 16 + group / 2 * 32 + (k & 16), is_aligned);

    return scaled_bytes(q >> 4 * (group & 1) & 0x0f0f0f0f, d.x, d.y);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    chunk c;

    read_scales(c, h, i_chunk / 2);
    const uint[WORDS_MAX] pairs = read_words(second, at + 16 + 16 * i_chunk, 4, is_aligned);

    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = pairs[i] & 0x0f0f0f0f;
        c.words[i + 4] = pairs[i] >> 4 & 0x0f0f0f0f;
    }
    return c;
}
