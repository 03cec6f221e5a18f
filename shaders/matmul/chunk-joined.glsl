// SPDX-License-Identifier: Apache-2.0

// Reads the formats of libinfer/backend/joined.h that have codes of 2 bits: a chunk has 64 weights.

#define QUADS 16
#define QUAD_OFFSET(j) (j)
#define QUAD_UNIT BYTE_UNIT
#define DOT_UNIT 1.0

struct chunk {
    uint words[16];
    float scale, low;
};

// Splits 4 words, each of which has 16 codes.
void split_codes(inout chunk c, uint[WORDS_MAX] words)
{
    [[unroll]] for (uint i = 0; i < 16; i++)
        c.words[i] = words[i / 4] >> 2 * (i % 4) & 0x03030303;
}

// Returns the first quad of chunk c.
uint chunk_quad(uint c)
{
    return 16 * c;
}

vec4 quad(chunk c, uint j)
{
    return byte_floats(c.words[j]);
}

#ifdef DTYPE_MLX2

#define SUPER_ELEMS 128
#define SUPER_BYTES 36
#define CHUNKS 2
#define SUMS 2

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

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale * dot_x;
    precise float b = c.low * plain;

    return a - b;
}

float single(bool second, uint at, uint k)
{
    return 0.0;
}

#else

// All numbers of a rounded row have the same scale, so that one sum is enough.
#define SUPER_ELEMS 64
#define SUPER_BYTES 16
#define CHUNKS 1
#define SUMS 1

struct head {
    uint none;
};

head read_head(bool second, uint at)
{
    return head(0);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    chunk c;

    split_codes(c, read_words(second, at, 4, is_aligned));
    return c;
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float sum = dot_x - plain;

    return sum;
}

float single(bool second, uint at, uint k)
{
    const uint word = texel(second, (at + k / 16 * 4) / 16)[(at + k / 16 * 4) / 4 & 3];

    return float(int(word >> 8 * (k % 4) + 2 * (k / 4 % 4) & 3) - 1);
}

#endif
