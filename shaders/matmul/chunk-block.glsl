// SPDX-License-Identifier: Apache-2.0

// Reads blocks of 32 weights with one scale: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and MXFP4.

#define SUPER_ELEMS 32
#define CHUNKS 1
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define SUMS 1

struct head {
    uint none;
};

struct chunk {
    uint words[8]; // 4 weights each, one byte per weight
    float scale, low;
};

head read_head(bool second, uint at)
{
    return head(0);
}

uint chunk_quad(uint c)
{
    return 0;
}

// Returns the sum of the products of x and w = scale × q - low. @dot_x is the sum of the products of x and q,
// and @plain the sum of x.
float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale * dot_x;

#ifdef DTYPE_Q8_0
    return a;
#else
    precise float b = c.low * plain;

    return a - b;
#endif
}

float single(bool second, uint at, uint k)
{
    return 0.0;
}

#ifdef DTYPE_Q8_0

#define SUPER_BYTES 34

// Signed bytes are shifted to the high byte of a word, which preserves their sign; so they are multiplied by
// 2^24. The scale compensates for this factor.
#define QUAD_UNIT vec4(1.0)
// Integer sums of products do not have this factor, so they are multiplied by it.
#define DOT_UNIT 16777216.0

vec4 quad(chunk c, uint j)
{
    const uint word = c.words[j];

    return vec4(int(word << 24), int(word << 16 & 0xff000000), int(word << 8 & 0xff000000),
                int(word & 0xff000000));
}

chunk read_chunk(bool second, head h, uint at, uint i)
{
    const uint[WORDS_MAX] words = read_words(second, at, 9, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x * (1.0 / 16777216.0);
    c.low = 0.0;
    [[unroll]] for (uint j = 0; j < 8; j++)
        c.words[j] = words[j] >> 16 | words[j + 1] << 16;
    return c;
}

#else

#define QUAD_UNIT BYTE_UNIT
#define DOT_UNIT 1.0

vec4 quad(chunk c, uint j)
{
    return byte_floats(c.words[j]);
}

// Splits 16 pairs of nibbles: words 0 … 3 of the chunk get the low nibbles, words 4 … 7 the high ones.
void split_nibbles(inout chunk c, uint i, uint pairs)
{
    c.words[i] = pairs & 0x0f0f0f0f;
    c.words[i + 4] = pairs >> 4 & 0x0f0f0f0f;
}

#if defined(DTYPE_Q4_0)

#define SUPER_BYTES 18

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 5, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x;
    c.low = 8.0 * c.scale;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i] >> 16 | words[i + 1] << 16);
    return c;
}

#elif defined(DTYPE_MXFP4)

#define SUPER_BYTES 17

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    uint codes[4];
    chunk c;

    c.scale = fp4_scale(read_fp4(second, at, codes));
    c.low = 16.0 * c.scale;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = fp4_codes(codes[i]);
        c.words[i + 4] = fp4_codes(codes[i] >> 4);
    }
    return c;
}

#elif defined(DTYPE_Q4_1)

#define SUPER_BYTES 20

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 5, false);
    const vec2 d = unpackHalf2x16(words[0]);
    chunk c;

    c.scale = d.x;
    c.low = -d.y;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 1]);
    return c;
}

#else

// Returns bits 4i … 4i + 3 of @high, each as the fifth bit of a byte.
uint high_bits(uint high, uint i)
{
    return (high >> 4 * i & 15) * 0x00204081 << 4 & 0x10101010;
}

void add_high_bits(inout chunk c, uint high)
{
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] |= high_bits(high, i);
}

#ifdef DTYPE_Q5_0

#define SUPER_BYTES 22

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    chunk c;

    c.scale = unpackHalf2x16(words[0]).x;
    c.low = 16.0 * c.scale;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 1] >> 16 | words[i + 2] << 16);
    add_high_bits(c, words[0] >> 16 | words[1] << 16);
    return c;
}

#else

#define SUPER_BYTES 24

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    const vec2 d = unpackHalf2x16(words[0]);
    chunk c;

    c.scale = d.x;
    c.low = -d.y;
    [[unroll]] for (uint i = 0; i < 4; i++)
        split_nibbles(c, i, words[i + 2]);
    add_high_bits(c, words[1]);
    return c;
}

#endif
#endif
#endif
