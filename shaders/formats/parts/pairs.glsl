// SPDX-License-Identifier: Apache-2.0

// Reads the formats of libinfer/backend/joined.h that have codes of 2 bits: a chunk has 64 weights. A format defines
// how many chunks are read together, struct head, read_chunk() and scaled().

#define QUADS 16
#define QUAD_OFFSET(j) (j)

struct chunk {
    uint words[16];
    float scale, low;
};

#include "formats/parts/bytes.glsl"

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

uint read_word(bool second, uint at)
{
    return texel(second, at / 16)[at / 4 & 3];
}

vec4[4] scaled_codes(uint word, float scale, float low)
{
    return scaled_bytes(uvec4(word, word >> 2, word >> 4, word >> 6) & 0x03030303, scale, low);
}
