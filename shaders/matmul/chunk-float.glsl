// SPDX-License-Identifier: Apache-2.0

// Reads F32, F16 and BF16. Chunks have 64 bytes where each lane has a row of its own. Elsewhere they have 16
// bytes, so that neighboring lanes read contiguous memory.

#ifdef TEXEL
#define CHUNK_WORDS 16
#else
#define CHUNK_WORDS 4
#endif
#ifdef DTYPE_F32
#define ELEM_BYTES 4
#else
#define ELEM_BYTES 2
#endif
#define SUPER_BYTES (4 * CHUNK_WORDS)
#define SUPER_ELEMS (SUPER_BYTES / ELEM_BYTES)
#define CHUNKS 1
#define QUADS (SUPER_ELEMS / 4)
#define QUAD_OFFSET(j) (j)
#define QUAD_UNIT vec4(1.0)
#define SUMS 1

struct head {
    uint none;
};

struct chunk {
    uint words[WORDS_MAX];
};

head read_head(bool second, uint at)
{
    return head(0);
}

uint chunk_quad(uint c)
{
    return 0;
}

chunk read_chunk(bool second, head h, uint at, uint c)
{
    return chunk(read_words(second, at, CHUNK_WORDS, is_aligned));
}

#if defined(DTYPE_F32)

vec4 quad(chunk c, uint j)
{
    return uintBitsToFloat(
        uvec4(c.words[4 * j], c.words[4 * j + 1], c.words[4 * j + 2], c.words[4 * j + 3]));
}

#elif defined(DTYPE_F16)

vec4 quad(chunk c, uint j)
{
    return vec4(unpackHalf2x16(c.words[2 * j]), unpackHalf2x16(c.words[2 * j + 1]));
}

#else

vec4 quad(chunk c, uint j)
{
    const uint a = c.words[2 * j], b = c.words[2 * j + 1];

    return uintBitsToFloat(uvec4(a << 16, a & 0xffff0000, b << 16, b & 0xffff0000));
}

#endif

float scaled(chunk c, uint s, float dot_x, float plain)
{
    return dot_x;
}

float single(bool second, uint at, uint k)
{
    const uint byte = at + k * ELEM_BYTES;
    const uint[WORDS_MAX] words = read_words(second, byte, 1, false);

#if defined(DTYPE_F32)
    return uintBitsToFloat(words[0]);
#elif defined(DTYPE_F16)
    return unpackHalf2x16(words[0]).x;
#else
    return uintBitsToFloat(words[0] << 16);
#endif
}
