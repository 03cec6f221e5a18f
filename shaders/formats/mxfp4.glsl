// SPDX-License-Identifier: Apache-2.0

// MXFP4: 32 weights, w = 2^(e - 127) × v / 2. Blocks may begin at odd bytes.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 17

#include "formats/parts/block.glsl"
#include "formats/parts/bytes.glsl"
#include "formats/parts/fp4.glsl"
#include "formats/parts/low.glsl"
#include "formats/parts/whole.glsl"

// Returns half of a scale, 2^(e - 128). It is a product, because for e < 2 it is subnormal.
float fp4_scale(uint e)
{
    return uintBitsToFloat((e / 2 + 63) << 23) * uintBitsToFloat((e - e / 2 + 63) << 23);
}

// Reads the codes of the block at byte @at, which may be odd, and returns the scale of the block.
uint read_fp4(bool second, uint at, out uint codes[4])
{
    const uint[WORDS_MAX] words = read_words(second, at & ~1u, 5, false);
    const bool is_odd = (at & 1) != 0;

    [[unroll]] for (uint i = 0; i < 4; i++)
        codes[i] = is_odd ? words[i] >> 16 | words[i + 1] << 16 : words[i] >> 8 | words[i + 1] << 24;
    return (is_odd ? words[0] >> 8 : words[0]) & 0xff;
}

float weight_in_block(uint at, uint l)
{
    return fp4_scale(weight_u8(at)) * float(int(fp4_codes(weight_nibble(at + 1, l)) & 255) - 16);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    uint codes[4];
    const float scale = fp4_scale(read_fp4(second, at + k / 32 * 17, codes));
    const uint shift = (k & 16) / 4;

    return scaled_bytes(uvec4(fp4_codes(codes[0] >> shift), fp4_codes(codes[1] >> shift),
                              fp4_codes(codes[2] >> shift), fp4_codes(codes[3] >> shift)),
                        scale, 16.0 * scale);
}

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
