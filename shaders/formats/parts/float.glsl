// SPDX-License-Identifier: Apache-2.0

// Reads chunks of floats. With TEXEL each lane reads a row of its own, in chunks of 64 bytes. Without TEXEL chunks
// have 16 bytes, so that neighboring lanes read contiguous memory. A format defines quad(), and FLOAT_OF(word): the
// float in the low bits of a word.

#ifdef TEXEL
#define CHUNK_WORDS 16
#else
#define CHUNK_WORDS 4
#endif
#define SUPER_BYTES (4 * CHUNK_WORDS)
#define SUPER_ELEMS (SUPER_BYTES / BLOCK_BYTES)
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

float scaled(chunk c, uint s, float dot_x, float plain)
{
    return dot_x;
}

float single(bool second, uint at, uint k)
{
    const uint byte = at + k * BLOCK_BYTES;
    const uint[WORDS_MAX] words = read_words(second, byte, 1, false);

    return FLOAT_OF(words[0]);
}
