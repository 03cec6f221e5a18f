// SPDX-License-Identifier: Apache-2.0

// Q3_K: 256 weights in 16 groups of 16, w = d × (sc - 32) × (q - 4).

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 110

struct head {
    uint words[4]; // 12 bytes of scales, then d
};

struct chunk {
    uint words[16];
    float scale[4];
};

#include "formats/parts/bytes.glsl"
#include "formats/parts/code-runs.glsl"
#include "formats/parts/quarters.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 110, l = k & 255, group = l / 16;
    const uvec4 high = read_bytes(second, block + (l & 16), false) >> l / 32;
    const uvec4 low = read_bytes(second, block + 32 + l / 128 * 32 + (l & 16), false) >> l / 32 % 4 * 2;
    const uint scale_low = read_byte(second, block + 96 + group % 8) >> group / 8 * 4 & 15;
    const uint scale_high = read_byte(second, block + 104 + group % 4) >> group / 4 * 2 & 3;
    const float scale = read_half(second, block + 108) * float(int(scale_low | scale_high << 4) - 32);

    return codes(bytes_less((low & 0x03030303) | (high & 0x01010101) << 2, 4), scale, 0.0);
}

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at + 96, 4, false);

    return head(uint[](words[0], words[1], words[2], words[3]));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint part = i_chunk / 2;
    const uint[WORDS_MAX] low = read_words(second, at + 32 + 16 * i_chunk, 4, false);
    const uint[WORDS_MAX] high = read_words(second, at + i_chunk % 2 * 16, 4, false);
    const float d = unpackHalf2x16(h.words[3]).x;
    chunk c;

    [[unroll]] for (uint i = 0; i < 16; i++)
        c.words[i] = (low[i % 4] >> i / 4 * 2 & 0x03030303) | (high[i % 4] >> 4 * part >> i / 4 & 0x01010101) << 2;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint shift = 16 * (i % 2) + 8 * (i_chunk % 2) + 4 * part;
        const uint scale = (h.words[i / 2] >> shift & 15) | (h.words[2] >> shift >> i / 2 * 2 & 3) << 4;

        c.scale[i] = d * float(int(scale) - 32);
    }
    return c;
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float offset = 4.0 * plain;
    precise float sum = dot_x - offset;

    return c.scale[s] * sum;
}
