// SPDX-License-Identifier: Apache-2.0

// F32: a float of 32 bits.

#define BLOCK_ELEMS 1
#define BLOCK_BYTES 4
#define FLOAT_OF(word) uintBitsToFloat(word)

#include "formats/parts/float.glsl"

float weight_in_block(uint at, uint l)
{
    return uintBitsToFloat(weight_u16(at) | weight_u16(at + 2) << 16);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    vec4 run[4];

    [[unroll]] for (uint i = 0; i < 4; i++)
        run[i] = uintBitsToFloat(read_bytes(second, at + 4 * k + 16 * i, is_aligned));
    return run;
}

vec4 quad(chunk c, uint j)
{
    return uintBitsToFloat(
        uvec4(c.words[4 * j], c.words[4 * j + 1], c.words[4 * j + 2], c.words[4 * j + 3]));
}
