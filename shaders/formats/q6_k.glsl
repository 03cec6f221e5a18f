// SPDX-License-Identifier: Apache-2.0

// Q6_K: 256 weights in 16 groups of 16, w = d × sc × (q - 32). A chunk has 64 weights, 16 from each quarter of half a
// block. The quarters share bytes of high bits.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 210
#define CHUNKS 4
#define QUADS 16
#define QUAD_OFFSET(j) ((j) % 4 + (j) / 4 * 8)
#define SUMS 4

struct head {
    uint words[5]; // 16 scales, then d
};

struct chunk {
    uint words[16];
    float scale[4];
};

#include "formats/parts/bytes.glsl"
#include "formats/parts/whole.glsl"

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at + 192, 5, false);

    return head(uint[](words[0], words[1], words[2], words[3], words[4]));
}

// Returns the first quad of chunk c, which consists of half c % 2 of each quarter of half c / 2 of the block.
uint chunk_quad(uint c)
{
    return c / 2 * 32 + c % 2 * 4;
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint part = i_chunk / 2, i_byte = i_chunk % 2 * 16;
    const uint[WORDS_MAX] a = read_words(second, at + 64 * part + i_byte, 4, false);
    const uint[WORDS_MAX] b = read_words(second, at + 64 * part + 32 + i_byte, 4, false);
    const uint[WORDS_MAX] high = read_words(second, at + 128 + 32 * part + i_byte, 4, false);
    const float d = unpackHalf2x16(h.words[4]).x;
    chunk c;

    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = (a[i] & 0x0f0f0f0f) | (high[i] << 4 & 0x30303030);
        c.words[i + 4] = (b[i] & 0x0f0f0f0f) | (high[i] << 2 & 0x30303030);
        c.words[i + 8] = (a[i] >> 4 & 0x0f0f0f0f) | (high[i] & 0x30303030);
        c.words[i + 12] = (b[i] >> 4 & 0x0f0f0f0f) | (high[i] >> 2 & 0x30303030);
    }
    // The scale of a quarter is that of group 8 part + 2 quarter + i_chunk % 2. Scales are signed bytes.
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint four = part == 0 ? h.words[i / 2] : h.words[i / 2 + 2];

        c.scale[i] = d * float(int(four << (24 - 16 * (i % 2) - 8 * (i_chunk % 2))) >> 24);
    }
    return c;
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float offset = 32.0 * plain;
    precise float sum = dot_x - offset;

    return c.scale[s] * sum;
}

float weight_in_block(uint at, uint l)
{
    const uint part = l / 128, quarter = l / 32 & 3, i = l & 31;
    const uint low = weight_u8(at + 64 * part + 32 * (quarter & 1) + i) >> (quarter / 2 * 4) & 15;
    const uint high = weight_u8(at + 128 + 32 * part + i) >> (2 * quarter) & 3;
    const int scale = bitfieldExtract(int(weight_u8(at + 192 + l / 16)), 0, 8);
    precise float d = weight_half(at + 208) * float(scale);

    return d * float(int(low | high << 4) - 32);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 210, l = k & 255;
    const uint part = l / 128, quarter = l / 32 & 3, i = l & 31;
    const uvec4 low = read_bytes(second, block + 64 * part + 32 * (quarter & 1) + i, false);
    const uvec4 high = read_bytes(second, block + 128 + 32 * part + i, false);
    const int group_scale = bitfieldExtract(int(read_byte(second, block + 192 + l / 16)), 0, 8);
    const float scale = read_half(second, block + 208) * float(group_scale);

    return scaled_bytes((low >> 4 * (quarter / 2) & 0x0f0f0f0f) |
                            (high >> 2 * quarter & 0x03030303) << 4,
                        scale, 32.0 * scale);
}
