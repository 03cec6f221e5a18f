// SPDX-License-Identifier: Apache-2.0

// F16: binary16.

#define BLOCK_ELEMS 1
#define BLOCK_BYTES 2
#define FLOAT_OF(word) unpackHalf2x16(word).x

#include "formats/parts/float.glsl"

float weight_in_block(uint at, uint l)
{
    return weight_half(at);
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uvec4 a = read_bytes(second, at + 2 * k, is_aligned);
    const uvec4 b = read_bytes(second, at + 2 * k + 16, is_aligned);

    return vec4[](vec4(unpackHalf2x16(a.x), unpackHalf2x16(a.y)),
                  vec4(unpackHalf2x16(a.z), unpackHalf2x16(a.w)),
                  vec4(unpackHalf2x16(b.x), unpackHalf2x16(b.y)),
                  vec4(unpackHalf2x16(b.z), unpackHalf2x16(b.w)));
}

vec4 quad(chunk c, uint j)
{
    return vec4(unpackHalf2x16(c.words[2 * j]), unpackHalf2x16(c.words[2 * j + 1]));
}
