// SPDX-License-Identifier: Apache-2.0

// BITNET: 16 weights of 2 bits, w = q - 1, and a factor of the matrix.

#define BLOCK_ELEMS 16
#define BLOCK_BYTES 4
#define HAS_FACTOR 1

// All numbers of a rounded row have the same scale, so that one sum is enough.
#define SUPER_ELEMS 64
#define SUPER_BYTES 16
#define CHUNKS 1
#define SUMS 1

#include "formats/parts/pairs.glsl"

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

float weight_in_block(uint at, uint l)
{
    return float(int(weight_u8(at + l % 4) >> (l / 4 * 2) & 3) - 1);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    return scaled_codes(read_word(second, at + k / 4), 1.0, 1.0);
}
