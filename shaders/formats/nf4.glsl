// SPDX-License-Identifier: Apache-2.0

// NF4 of libinfer/backend/joined.h: 32 weights in two groups of 16, w = d × v with a float d. v is one of 16
// floats, which the host binds as a grid. A code of 4 bits is the number of a float.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 24
#define SUMS 2

#include "formats/parts/values.glsl"

IN_U4(7, grid)

float nf4_value(uint code)
{
    return uintBitsToFloat(grid(code / 4)[code & 3]);
}

// Returns the values of 4 codes, which are the low 4 bits of the bytes of @codes.
vec4 nf4_values(uint codes)
{
    return vec4(nf4_value(codes & 15), nf4_value(codes >> 8 & 15), nf4_value(codes >> 16 & 15),
                nf4_value(codes >> 24 & 15));
}

float weight_in_block(uint at, uint l)
{
    return weight_float(at + l / 16 * 4) * nf4_value(weight_nibble(at + 8, l));
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 24, shift = (k & 16) / 4;
    const uvec4 pairs = read_bytes(second, block + 8, false) >> shift;
    const float d = read_float(second, block + shift);

    return vec4[](d * nf4_values(pairs.x), d * nf4_values(pairs.y), d * nf4_values(pairs.z), d * nf4_values(pairs.w));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 6, false);
    chunk c;

    [[unroll]] for (uint i = 0; i < 2; i++)
        c.scale[i] = uintBitsToFloat(words[i]);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = words[i + 2];
        c.words[i + 4] = words[i + 2] >> 4;
    }
    return c;
}

vec4 quad(chunk c, uint j)
{
    return nf4_values(c.words[j]);
}
