// SPDX-License-Identifier: Apache-2.0

// Q2_K: 256 weights in 16 groups of 16, w = d × sc × q - dmin × mn.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 84
#define HAS_LOW 1

struct head {
    vec2 d; // d and dmin
};

struct chunk {
    uint words[16];
    float scale[4], low[4];
};

#include "formats/parts/bytes.glsl"
#include "formats/parts/code-runs.glsl"
#include "formats/parts/quarters.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 84, l = k & 255;
    const uvec4 q = read_bytes(second, block + 16 + l / 128 * 32 + (l & 16), false);
    const uint group = read_byte(second, block + l / 16);
    const vec2 d = unpackHalf2x16(read_word(second, block + 80));

    return codes(q >> l / 32 % 4 * 2 & 0x03030303, d.x * float(group & 15), d.y * float(group >> 4));
}

head read_head(bool second, uint at)
{
    return head(unpackHalf2x16(read_word(second, at + 80)));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] q = read_words(second, at + 16 + 16 * i_chunk, 4, false);
    const uint[WORDS_MAX] groups = read_words(second, at + i_chunk / 2 * 8, 2, false);
    chunk c;

    [[unroll]] for (uint i = 0; i < 16; i++)
        c.words[i] = q[i % 4] >> i / 4 * 2 & 0x03030303;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint group = groups[i / 2] >> (16 * (i % 2) + 8 * (i_chunk % 2));

        c.scale[i] = h.d.x * float(int(group & 15));
        c.low[i] = h.d.y * float(int(group >> 4 & 15));
    }
    return c;
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale[s] * dot_x;
    precise float b = c.low[s] * plain;

    return a - b;
}
