// SPDX-License-Identifier: Apache-2.0

// Reads chunks of TQ2_0 and TQ1_0: a chunk has one group of 32 weights, w = d × (q - 1). All groups of a block have
// the same scale. A format defines D_AT, the place of d, and read_chunk().

#define CHUNKS 8
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define SUMS 1

struct head {
    float scale;
};

struct chunk {
    uint words[8];
    float scale;
};

#include "formats/parts/bytes.glsl"
#include "formats/parts/whole.glsl"

// Returns the first quad of chunk c.
uint chunk_quad(uint c)
{
    return 8 * c;
}

head read_head(bool second, uint at)
{
    const uint[WORDS_MAX] words = read_words(second, at + D_AT, 1, false);

    return head(unpackHalf2x16(words[0]).x);
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float sum = dot_x - plain;

    return c.scale * sum;
}
