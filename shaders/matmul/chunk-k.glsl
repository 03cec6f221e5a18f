// SPDX-License-Identifier: Apache-2.0

// Reads Q4_K and Q5_K: a chunk has 16 pairs of nibbles, which belong to two groups with separate scales.

#define SUPER_ELEMS 256
#define CHUNKS 8
#define QUADS 8
#define QUAD_OFFSET(j) ((j) < 4 ? (j) : (j) + 4)
#define QUAD_UNIT BYTE_UNIT
#define DOT_UNIT 1.0
#define SUMS 2

#ifdef DTYPE_Q4_K
#define SUPER_BYTES 144
#else
#define SUPER_BYTES 176
#endif

struct head {
    uint words[4]; // d and dmin, then 12 bytes of scales
};

struct chunk {
    uint words[8];
    float scale[2], low[2];
};

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

// Reads the scales of two groups, in the layout of block_k_scale(): the scale of each of the first 4 groups is
// the low 6 bits of a byte; the top bits of the scales of the other groups are in the high bits of these
// bytes.
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

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint pair = i_chunk / 2;
    chunk c;

    read_scales(c, h, pair);
#ifdef DTYPE_Q4_K
    const uint[WORDS_MAX] pairs = read_words(second, at + 16 + 16 * i_chunk, 4, is_aligned);

    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = pairs[i] & 0x0f0f0f0f;
        c.words[i + 4] = pairs[i] >> 4 & 0x0f0f0f0f;
    }
#else
    const uint[WORDS_MAX] high = read_words(second, at + 16 + 16 * (i_chunk & 1), 4, is_aligned);
    const uint[WORDS_MAX] pairs = read_words(second, at + 48 + 16 * i_chunk, 4, is_aligned);

    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint bits = high[i] >> 2 * pair;

        c.words[i] = (pairs[i] & 0x0f0f0f0f) | (bits << 4 & 0x10101010);
        c.words[i + 4] = (pairs[i] >> 4 & 0x0f0f0f0f) | (bits << 3 & 0x10101010);
    }
#endif
    return c;
}

vec4 quad(chunk c, uint j)
{
    return byte_floats(c.words[j]);
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale[s] * dot_x;
    precise float b = c.low[s] * plain;

    return a - b;
}

float single(bool second, uint at, uint k)
{
    return 0.0;
}
