// SPDX-License-Identifier: Apache-2.0

// Q5_K: as Q4_K, but q has 5 bits.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 176

#include "formats/parts/k.glsl"

float weight_in_block(uint at, uint l)
{
    const uint low = weight_u8(at + 48 + l / 64 * 32 + (l & 31)) >> (l / 32 % 2 * 4) & 15;

    return weight_k(at, l, low | (weight_u8(at + 16 + (l & 31)) >> (l / 32) & 1) << 4);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 176, group = k / 32 & 7;
    const uvec4 head = read_bytes(second, block, is_aligned);
    const vec2 d = unpackHalf2x16(head.x) * vec2(group_scale(head.yzw, group));
    uvec4 q = read_bytes(second, block + 48 + group / 2 * 32 + (k & 16), is_aligned);

    q = q >> 4 * (group & 1) & 0x0f0f0f0f;
    q |= (read_bytes(second, block + 16 + (k & 16), is_aligned) >> group & 0x01010101) << 4;
    return scaled_bytes(q, d.x, d.y);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint pair = i_chunk / 2;
    chunk c;

    read_scales(c, h, pair);
    const uint[WORDS_MAX] high = read_words(second, at + 16 + 16 * (i_chunk & 1), 4, is_aligned);
    const uint[WORDS_MAX] pairs = read_words(second, at + 48 + 16 * i_chunk, 4, is_aligned);

    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint bits = high[i] >> 2 * pair;

        c.words[i] = (pairs[i] & 0x0f0f0f0f) | (bits << 4 & 0x10101010);
        c.words[i + 4] = (pairs[i] >> 4 & 0x0f0f0f0f) | (bits << 3 & 0x10101010);
    }
    return c;
}
