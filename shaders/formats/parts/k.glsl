// SPDX-License-Identifier: Apache-2.0

// Reads the scales of Q4_K and Q5_K. A block has 8 groups of 32 weights, w = d × sc × q - dmin × mn. A chunk has 16
// pairs of nibbles, which belong to two groups with separate scales. A format defines read_chunk().

#define CHUNKS 8
#define QUADS 8
#define QUAD_OFFSET(j) ((j) < 4 ? (j) : (j) + 4)
#define SUMS 2

struct head {
    uint words[4]; // d and dmin, then 12 bytes of scales
};

struct chunk {
    uint words[8];
    float scale[2], low[2];
};

#include "formats/parts/bytes.glsl"
#include "formats/parts/whole.glsl"

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at, 4, is_aligned);

    return head(uint[](words[0], words[1], words[2], words[3]));
}

// Returns the first quad of chunk c, which consists of half c % 2 of each of the groups 2 (c / 2) and
// 2 (c / 2) + 1.
uint chunk_quad(uint c)
{
    return c / 2 * 16 + c % 2 * 4;
}

// Reads the scales of two groups, in the layout of block_k_scale(): the scales of the first 4 groups are the low 6
// bits of 4 bytes. The 2 high bits of these bytes are the top bits of the scales of the other 4 groups.
void read_scales(inout chunk c, head h, uint pair)
{
    const bool is_first = pair < 2;
    const uint shift = 16 * (pair & 1);
    const uint mask = is_first ? 63 : 15, top = is_first ? 0 : 48;
    const uint sc = (is_first ? h.words[1] : h.words[3]) >> shift;
    const uint mn = (is_first ? h.words[2] : h.words[3] >> 4) >> shift;
    const uint sc_top = h.words[1] >> shift, mn_top = h.words[2] >> shift;
    const vec2 d = unpackHalf2x16(h.words[0]);

    c.scale[0] = d.x * float(int((sc & mask) | (sc_top >> 2 & top)));
    c.scale[1] = d.x * float(int((sc >> 8 & mask) | (sc_top >> 10 & top)));
    c.low[0] = d.y * float(int((mn & mask) | (mn_top >> 2 & top)));
    c.low[1] = d.y * float(int((mn >> 8 & mask) | (mn_top >> 10 & top)));
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale[s] * dot_x;
    precise float b = c.low[s] * plain;

    return a - b;
}

// Does what block_k_scale() in libinfer/quant/block.h does; @words are the 12 bytes of scales.
uvec2 group_scale(uvec3 words, uint group)
{
    const uint shift = 8 * (group & 3);
    const uint a = words.x >> shift, b = words.y >> shift, c = words.z >> shift;

    return group < 4 ? uvec2(a & 63, b & 63)
                     : uvec2((c & 15) | (a >> 2 & 48), (c >> 4 & 15) | (b >> 2 & 48));
}

// Returns the scale and the minimum of group g, which have 6 bits each.
uvec2 weight_k_scale(uint at, uint g)
{
    if (g < 4)
        return uvec2(weight_u8(at + g) & 63, weight_u8(at + g + 4) & 63);
    const uint low = weight_u8(at + g + 4);

    return uvec2((low & 15) | (weight_u8(at + g - 4) >> 6) << 4,
                 low >> 4 | (weight_u8(at + g) >> 6) << 4);
}

// Returns weight l of the block at byte @at. @q: the code of this weight.
float weight_k(uint at, uint l, uint q)
{
    const uvec2 scale = weight_k_scale(at + 4, l / 32);
    precise float d = weight_half(at) * float(scale.x);
    precise float m = weight_half(at + 2) * float(scale.y);
    precise float product = d * float(q);
    precise float sum = product - m;

    return sum;
}
