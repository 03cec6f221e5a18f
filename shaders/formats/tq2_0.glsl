// SPDX-License-Identifier: Apache-2.0

// TQ2_0: 256 weights, w = d × (q - 1), q = 0, 1 or 2 in 2 bits.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 66
#define D_AT 64

#include "formats/parts/ternary.glsl"

float weight_in_block(uint at, uint l)
{
    const uint q = weight_u8(at + l / 128 * 32 + (l & 31)) >> (l / 32 % 4 * 2) & 3;

    return weight_half(at + 64) * float(int(q) - 1);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 66, l = k & 255;
    const float scale = read_half(second, block + 64);
    const uvec4 q = read_bytes(second, block + l / 128 * 32 + (l & 16), false);

    return scaled_bytes(q >> l / 32 % 4 * 2 & 0x03030303, scale, scale);
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
