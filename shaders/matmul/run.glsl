// SPDX-License-Identifier: Apache-2.0
#ifndef RUN_GLSL
#define RUN_GLSL

// Decodes runs of 16 consecutive weights, which kernels copy to shared memory.
//
// A run begins at a multiple of 16 columns. It is an array of 4 vec4, in the order of columns.

#include "matmul/words.glsl"

#define RUN 16u

// Reads 16 bytes from the even byte offset @at; @aligned: @at is a multiple of 16.
uvec4 read_bytes(bool second, uint at, bool aligned)
{
    const uint[WORDS_MAX] words = read_words(second, at, 4, aligned);

    return uvec4(words[0], words[1], words[2], words[3]);
}

float read_half(bool second, uint at)
{
    const uint word = texel(second, at / 16)[at / 4 & 3];

    return unpackHalf2x16(word >> 8 * (at & 2)).x;
}

uint read_byte(bool second, uint at)
{
    return texel(second, at / 16)[at / 4 & 3] >> 8 * (at & 3) & 0xff;
}

vec4 bytes_of(uint word)
{
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 0xff);
}

// Returns scale × q - low for 16 bytes q.
vec4[4] scaled_bytes(uvec4 q, float scale, float low)
{
    return vec4[](scale * bytes_of(q.x) - low, scale * bytes_of(q.y) - low,
                  scale * bytes_of(q.z) - low, scale * bytes_of(q.w) - low);
}

#if defined(DTYPE_F32)

vec4[4] read_run(bool second, uint at, uint k)
{
    vec4 run[4];

    [[unroll]] for (uint i = 0; i < 4; i++)
        run[i] = uintBitsToFloat(read_bytes(second, at + 4 * k + 16 * i, is_aligned));
    return run;
}

#elif defined(DTYPE_F16)

vec4[4] read_run(bool second, uint at, uint k)
{
    const uvec4 a = read_bytes(second, at + 2 * k, is_aligned);
    const uvec4 b = read_bytes(second, at + 2 * k + 16, is_aligned);

    return vec4[](vec4(unpackHalf2x16(a.x), unpackHalf2x16(a.y)),
                  vec4(unpackHalf2x16(a.z), unpackHalf2x16(a.w)),
                  vec4(unpackHalf2x16(b.x), unpackHalf2x16(b.y)),
                  vec4(unpackHalf2x16(b.z), unpackHalf2x16(b.w)));
}

#elif defined(DTYPE_BF16)

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

#elif defined(DTYPE_Q8_0)

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 34;
    const float scale = read_half(second, block);
    // 128 is added to each q and subtracted from each product.
    const uvec4 q = read_bytes(second, block + 2 + (k & 16), false) ^ 0x80808080;
    vec4 run[4];

    [[unroll]] for (uint i = 0; i < 4; i++)
        run[i] = scale * (bytes_of(q[i]) - 128.0);
    return run;
}

#elif defined(DTYPE_Q4_0) || defined(DTYPE_Q4_1) || defined(DTYPE_Q5_0) || defined(DTYPE_Q5_1)

#if defined(DTYPE_Q4_0)
#define BLOCK_BYTES 18
#define BYTES_AT 2
#elif defined(DTYPE_Q4_1)
#define BLOCK_BYTES 20
#define BYTES_AT 4
#elif defined(DTYPE_Q5_0)
#define BLOCK_BYTES 22
#define BYTES_AT 6
#else
#define BLOCK_BYTES 24
#define BYTES_AT 8
#endif

// Returns bits 4i … 4i + 3 of @high, each as the fifth bit of a byte.
uint high_bits(uint high, uint i)
{
    return (high >> 4 * i & 15) * 0x00204081 << 4 & 0x10101010;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * BLOCK_BYTES;
    const float scale = read_half(second, block);
    uvec4 q = read_bytes(second, block + BYTES_AT, false) >> (k & 16) / 4 & 0x0f0f0f0f;
    float low;

#if defined(DTYPE_Q5_0) || defined(DTYPE_Q5_1)
    const uint[WORDS_MAX] words = read_words(second, block + BYTES_AT - 4, 1, false);
    const uint high = words[0] >> (k & 16);

    q |= uvec4(high_bits(high, 0), high_bits(high, 1), high_bits(high, 2), high_bits(high, 3));
#endif
#if defined(DTYPE_Q4_0)
    low = 8.0 * scale;
#elif defined(DTYPE_Q5_0)
    low = 16.0 * scale;
#else
    low = -read_half(second, block + 2);
#endif
    return scaled_bytes(q, scale, low);
}

#elif defined(DTYPE_Q4_K) || defined(DTYPE_Q5_K)

#ifdef DTYPE_Q4_K
#define BLOCK_BYTES 144
#define BYTES_AT 16
#else
#define BLOCK_BYTES 176
#define BYTES_AT 48
#endif

// Does what block_k_scale() in libinfer/quant/block.h does; @words are the 12 bytes of scales.
uvec2 group_scale(uvec3 words, uint group)
{
    const uint shift = 8 * (group & 3);
    const uint a = words.x >> shift, b = words.y >> shift, c = words.z >> shift;

    return group < 4 ? uvec2(a & 63, b & 63)
                     : uvec2((c & 15) | (a >> 2 & 48), (c >> 4 & 15) | (b >> 2 & 48));
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * BLOCK_BYTES, group = k / 32 & 7;
    const uvec4 head = read_bytes(second, block, is_aligned);
    const vec2 d = unpackHalf2x16(head.x) * vec2(group_scale(head.yzw, group));
    uvec4 q = read_bytes(second, block + BYTES_AT + group / 2 * 32 + (k & 16), is_aligned);

    q = q >> 4 * (group & 1) & 0x0f0f0f0f;
#ifdef DTYPE_Q5_K
    q |= (read_bytes(second, block + 16 + (k & 16), is_aligned) >> group & 0x01010101) << 4;
#endif
    return scaled_bytes(q, d.x, d.y);
}

#elif defined(DTYPE_Q6_K)

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 210, l = k & 255;
    const uint part = l / 128, quarter = l / 32 & 3, i = l & 31;
    const uvec4 low = read_bytes(second, block + 64 * part + 32 * (quarter & 1) + i, false);
    const uvec4 high = read_bytes(second, block + 128 + 32 * part + i, false);
    const int group_scale = bitfieldExtract(int(read_byte(second, block + 192 + l / 16)), 0, 8);
    const float scale = read_half(second, block + 208) * float(group_scale);

    return scaled_bytes((low >> 4 * (quarter / 2) & 0x0f0f0f0f) |
                            (high >> 2 * quarter & 0x03030303) << 4,
                        scale, 32.0 * scale);
}

#elif defined(DTYPE_MXFP4)

vec4[4] read_run(bool second, uint at, uint k)
{
    uint codes[4];
    const float scale = fp4_scale(read_fp4(second, at + k / 32 * 17, codes));
    const uint shift = (k & 16) / 4;

    return scaled_bytes(uvec4(fp4_codes(codes[0] >> shift), fp4_codes(codes[1] >> shift),
                              fp4_codes(codes[2] >> shift), fp4_codes(codes[3] >> shift)),
                        scale, 16.0 * scale);
}

#elif defined(DTYPE_TQ2_0)

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 66, l = k & 255;
    const float scale = read_half(second, block + 64);
    const uvec4 q = read_bytes(second, block + l / 128 * 32 + (l & 16), false);

    return scaled_bytes(q >> l / 32 % 4 * 2 & 0x03030303, scale, scale);
}

#elif defined(DTYPE_TQ1_0)

#include "lib/ternary.glsl"

vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 54, l = k & 255;
    const float scale = read_half(second, block + 52);
    const uvec2 place = ternary_place(l);
    const uvec4 q = read_bytes(second, block + place.x, false);
    uvec4 digits;

    if (l < 240)
        digits = uvec4(ternary_digits(q.x, place.y), ternary_digits(q.y, place.y),
                       ternary_digits(q.z, place.y), ternary_digits(q.w, place.y));
    else
        digits = uvec4(ternary_digits(q.x, 0), ternary_digits(q.x, 1), ternary_digits(q.x, 2),
                       ternary_digits(q.x, 3));
    return scaled_bytes(digits, scale, scale);
}

#elif defined(DTYPE_MLX2) || defined(DTYPE_BITNET)

uint read_word(bool second, uint at)
{
    return texel(second, at / 16)[at / 4 & 3];
}

vec4[4] scaled_codes(uint word, float scale, float low)
{
    return scaled_bytes(uvec4(word, word >> 2, word >> 4, word >> 6) & 0x03030303, scale, low);
}

#ifdef DTYPE_MLX2
vec4[4] read_run(bool second, uint at, uint k)
{
    const uint block = at + k / 128 * 36;
    const vec2 d = unpackHalf2x16(read_word(second, block));

    return scaled_codes(read_word(second, block + 4 + (k & 127) / 4), d.x, -d.y);
}
#else
vec4[4] read_run(bool second, uint at, uint k)
{
    return scaled_codes(read_word(second, at + k / 4), 1.0, 1.0);
}
#endif

#endif
#endif
