// SPDX-License-Identifier: Apache-2.0

// Reads TQ2_0 and TQ1_0: a chunk has one group of 32 weights. All groups of a block have the same scale.

#define SUPER_ELEMS 256
#define CHUNKS 8
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define QUAD_UNIT BYTE_UNIT
#define DOT_UNIT 1.0
#define SUMS 1

struct head {
    float scale;
};

struct chunk {
    uint words[8];
    float scale;
};

// Returns the first quad of chunk c.
uint chunk_quad(uint c)
{
    return 8 * c;
}

#ifdef DTYPE_TQ2_0

#define SUPER_BYTES 66

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at + 64, 1, false);

    return head(unpackHalf2x16(words[0]).x);
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at + i_chunk / 4 * 32, 8, false);
    chunk c;

    c.scale = h.scale;
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] = words[i] >> i_chunk % 4 * 2 & 0x03030303;
    return c;
}

#else

#include "lib/ternary.glsl"

#define SUPER_BYTES 54

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at + 52, 1, false);

    return head(unpackHalf2x16(words[0]).x);
}

// The first 5 groups are digits of the first 32 bytes. Each half of the other groups is a digit of the next 16
// bytes, except that the last half has 4 digits of the last 4 bytes.
chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const bool is_first = i_chunk < 5;
    const uint[WORDS_MAX] words = read_words(second, is_first ? at : at + 32, 8, false);
    chunk c;

    c.scale = h.scale;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const uint part = 2 * (i_chunk - 5) + i / 4;

        if (is_first)
            c.words[i] = ternary_digits(words[i], i_chunk);
        else if (part < 5)
            c.words[i] = ternary_digits(words[i % 4], part);
        else
            c.words[i] = ternary_digits(words[4], i % 4);
    }
    return c;
}

#endif

vec4 quad(chunk c, uint j)
{
    return byte_floats(c.words[j]);
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float sum = dot_x - plain;

    return c.scale * sum;
}

float single(bool second, uint at, uint k)
{
    return 0.0;
}
