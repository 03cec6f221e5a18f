// SPDX-License-Identifier: Apache-2.0

// FP8 of libinfer/backend/joined.h: 32 weights, w = d × v with a float d and numbers v in E4M3.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 36
#define SUMS 1

#include "formats/parts/values.glsl"

// Returns the numbers of 4 bytes. The bits of a number are moved to their places in binary16, which gives v / 256.
// A number whose bits without the sign are 127 is NaN, and would become 480 / 256.
vec4 fp8_values(uint bytes)
{
    const uvec2 two = uvec2(bytes, bytes >> 8) & 0x00ff00ff;
    const uvec2 halves = (two & 0x00800080) << 8 | (two & 0x007f007f) << 7;
    const vec2 even = unpackHalf2x16(halves.x), odd = unpackHalf2x16(halves.y);
    const vec4 v = vec4(even.x, odd.x, even.y, odd.y);

    return mix(256.0 * v, vec4(uintBitsToFloat(0x7fc00000)), equal(abs(v), vec4(1.875)));
}

float weight_in_block(uint at, uint l)
{
    return weight_float(at) * fp8_values(weight_u8(at + 4 + l)).x;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 36;
    const uvec4 bytes = read_bytes(second, block + 4 + (k & 16), false);
    const float d = read_float(second, block);

    return vec4[](d * fp8_values(bytes.x), d * fp8_values(bytes.y), d * fp8_values(bytes.z), d * fp8_values(bytes.w));
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    const uint[WORDS_MAX] words = read_words(second, at, 9, false);
    chunk c;

    c.scale[0] = uintBitsToFloat(words[0]);
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] = words[i + 1];
    return c;
}

vec4 quad(chunk c, uint j)
{
    return fp8_values(c.words[j]);
}
