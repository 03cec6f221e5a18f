// SPDX-License-Identifier: Apache-2.0
#ifndef STORE_GLSL
#define STORE_GLSL

// Reads keys and values from slots 0 and 1 in chunks of 16 bytes.
//
// The including kernel defines the constants HEAD_DIM and FORMAT. If a head is not a whole number of chunks,
// it may begin within a chunk; such heads are read by words, and elements after the end are zero.

#include "lib/half.glsl"
#include "lib/kv.glsl"
#include "lib/step.glsl"

const uint E = FORMAT == KV_F32 ? 4 : FORMAT == KV_Q8_0 ? 16 : 8; // elements in a chunk
const bool WHOLE = HEAD_DIM % E == 0;
const uint CHUNKS = (HEAD_DIM + E - 1) / E;

IN_U4(0, keys4)
IN_U32(0, keys1)
IN_U4(1, values4)
IN_U32(1, values1)

// Returns the offset in words of KV head @kv_head in block @block.
uint head_at(uint block, uint n_kv_heads, uint kv_head)
{
    return (block * n_kv_heads + kv_head) * kv_head_words(FORMAT, HEAD_DIM);
}

// Returns the offset in words of token @t in the head that begins at @head.
uint token_at(uint head, uint t)
{
    return head + t * kv_token_words(FORMAT, HEAD_DIM);
}

// Returns chunk @c of the key of the token that begins at word @at.
uvec4 key_chunk(uint at, uint c)
{
    const uint n = kv_token_words(FORMAT, HEAD_DIM) - 4 * c;

    if (WHOLE)
        return keys4(at / 4 + c);
    at += 4 * c;
    return uvec4(keys1[at], n > 1 ? keys1[at + 1] : 0, n > 2 ? keys1[at + 2] : 0,
                 n > 3 ? keys1[at + 3] : 0);
}

uvec4 value_chunk(uint at, uint c)
{
    const uint n = kv_token_words(FORMAT, HEAD_DIM) - 4 * c;

    if (WHOLE)
        return values4(at / 4 + c);
    at += 4 * c;
    return uvec4(values1[at], n > 1 ? values1[at + 1] : 0, n > 2 ? values1[at + 2] : 0,
                 n > 3 ? values1[at + 3] : 0);
}

// Returns elements 2i and 2i + 1 of a chunk.
vec2 pair_of(uvec4 chunk, uint i)
{
    if (FORMAT == KV_F32)
        return uintBitsToFloat(uvec2(chunk[2 * i], chunk[2 * i + 1]));
    if (FORMAT == KV_F16)
        return unpackHalf2x16(chunk[i]);
    if (FORMAT == KV_BF16)
        return bf16_unpack(chunk[i]);
    return vec2(bitfieldExtract(int(chunk[i / 2]), int(16 * (i % 2)), 8),
                bitfieldExtract(int(chunk[i / 2]), int(16 * (i % 2) + 8), 8));
}

// Returns the index of the scale of chunk @c of token @t, within one head of a block.
uint scale_index(uint t, uint c)
{
    return t * (HEAD_DIM / 32) + c / 2;
}

// Returns the factor of the elements of a chunk: 1 in all formats but Q8_0, which has scales.
float key_scale(uint head, uint t, uint c)
{
    const uint i = scale_index(t, c);

    if (FORMAT != KV_Q8_0)
        return 1.0;
    return unpackHalf2x16(keys1[head + KV_TOKENS * HEAD_DIM / 4 + i / 2] >> 16 * (i % 2)).x;
}

float value_scale(uint head, uint t, uint c)
{
    const uint i = scale_index(t, c);

    if (FORMAT != KV_Q8_0)
        return 1.0;
    return unpackHalf2x16(values1[head + KV_TOKENS * HEAD_DIM / 4 + i / 2] >> 16 * (i % 2)).x;
}

#endif
