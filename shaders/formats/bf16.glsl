// SPDX-License-Identifier: Apache-2.0

// BF16: the high half of a float of 32 bits.

#define BLOCK_ELEMS 1
#define BLOCK_BYTES 2
#define FLOAT_OF(word) uintBitsToFloat(word << 16)

#include "formats/parts/float.glsl"

float weight_in_block(uint at, uint l)
{
    return uintBitsToFloat(weight_u16(at) << 16);
}

vec4 four_bf16(uint a, uint b)
{
    return uintBitsToFloat(uvec4(a << 16, a & 0xffff0000, b << 16, b & 0xffff0000));
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uvec4 a = read_bytes(second, at + 2 * k, is_aligned);
    const uvec4 b = read_bytes(second, at + 2 * k + 16, is_aligned);

    return vec4[](four_bf16(a.x, a.y), four_bf16(a.z, a.w), four_bf16(b.x, b.y),
                  four_bf16(b.z, b.w));
}

vec4 quad(chunk c, uint j)
{
    const uint a = c.words[2 * j], b = c.words[2 * j + 1];

    return uintBitsToFloat(uvec4(a << 16, a & 0xffff0000, b << 16, b & 0xffff0000));
}
