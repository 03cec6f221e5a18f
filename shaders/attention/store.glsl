// SPDX-License-Identifier: Apache-2.0
#ifndef STORE_GLSL
#define STORE_GLSL

// Reads keys and values from slots 0 and 1 in chunks of 16 bytes.
//
// The including kernel defines the constants HEAD_DIM, FORMAT (of keys) and VALUE_FORMAT. Chunks of both formats
// have equally many elements. Chunks of codes are converted to levels of one byte when they are read. If a head
// is not a whole number of chunks, it may begin within a chunk; such heads are read by words, and elements after
// the end are zero.

#include "lib/half.glsl"
#include "lib/kv.glsl"
#include "lib/step.glsl"

const bool INTS = (FORMAT & 15u) >= KV_Q8_0; // elements are whole numbers, with scales
const uint E = FORMAT == KV_F32 ? 4 : INTS ? 16 : 8; // elements in a chunk
const bool WHOLE = HEAD_DIM % E == 0;
const uint CHUNKS = (HEAD_DIM + E - 1) / E;

IN_U4(0, keys4)
IN_U32(0, keys1)
IN_U4(1, values4)
IN_U32(1, values1)

// Returns the offset in words of the keys of head @kv_head in block @block.
uint head_at(uint block, uint n_kv_heads, uint kv_head)
{
    return (block * n_kv_heads + kv_head) * kv_head_words(FORMAT, HEAD_DIM);
}

// Returns the offset in words of the values of a head. @head: the result of head_at() for the same head
uint values_at(uint head)
{
    if (VALUE_FORMAT == FORMAT)
        return head;
    return head / kv_head_words(FORMAT, HEAD_DIM) * kv_head_words(VALUE_FORMAT, HEAD_DIM);
}

// Returns the offset in words of the key of token @t in the head that begins at @head.
uint token_at(uint head, uint t)
{
    return head + t * kv_token_words(FORMAT, HEAD_DIM);
}

// Returns the offset in words of the value of token @t. @head: the result of head_at()
uint value_at(uint head, uint t)
{
    return values_at(head) + t * kv_token_words(VALUE_FORMAT, HEAD_DIM);
}

// Defines a function that returns the levels of chunk @c of the token whose codes begin at word @at.
#define CODES_CHUNK(name, words4, format)                                                          \
    uvec4 name(uint at, uint c)                                                                    \
    {                                                                                              \
        const uint bits = kv_bits(format);                                                         \
        const uint run = bits == 3 ? 8 : bits == 5 ? 8 : bits == 4 ? 2 : 4; /* chunks of a run */  \
        const uint from = at / 4 + c / run * (bits * run / 8), i = c % run;                        \
        uvec4 x;                                                                                   \
                                                                                                   \
        if (bits == 4) {                                                                           \
            x = words4(from) >> 4 * i & 0x0f0f0f0fu;                                               \
        } else if (bits == 2) {                                                                    \
            x = words4(from) >> 2 * i & 0x03030303u;                                               \
        } else if (bits == 3) {                                                                    \
            if (i < 6)                                                                             \
                x = words4(from + i % 3) >> i / 3 * 4 & 0x07070707u;                               \
            else                                                                                   \
                x = (words4(from) >> (i * 4 - 21) & 0x01010101u) |                                 \
                    (words4(from + 1) >> (i * 4 - 21) & 0x01010101u) << 1 |                        \
                    (words4(from + 2) >> (i * 4 - 21) & 0x01010101u) << 2;                         \
        } else if (bits == 5) {                                                                    \
            x = (words4(from + i / 2) >> i % 2 * 4 & 0x0f0f0f0fu) |                                \
                (words4(from + 4) >> i & 0x01010101u) << 4;                                        \
        } else {                                                                                   \
            x = (words4(from + i / 2) >> i % 2 * 4 & 0x0f0f0f0fu) |                                \
                (words4(from + 2) >> 2 * i & 0x03030303u) << 4;                                    \
        }                                                                                          \
        return uvec4(kv_levels(format, x.x), kv_levels(format, x.y), kv_levels(format, x.z),       \
                     kv_levels(format, x.w));                                                      \
    }

CODES_CHUNK(key_codes, keys4, FORMAT)
CODES_CHUNK(value_codes, values4, VALUE_FORMAT)

// Returns chunk @c of the key of the token that begins at word @at.
uvec4 key_chunk(uint at, uint c)
{
    const uint n = kv_token_words(FORMAT, HEAD_DIM) - 4 * c;

    if (kv_kind(FORMAT) == KV_CODES)
        return key_codes(at, c);
    if (WHOLE)
        return keys4(at / 4 + c);
    at += 4 * c;
    return uvec4(keys1[at], n > 1 ? keys1[at + 1] : 0, n > 2 ? keys1[at + 2] : 0,
                 n > 3 ? keys1[at + 3] : 0);
}

uvec4 value_chunk(uint at, uint c)
{
    const uint n = kv_token_words(VALUE_FORMAT, HEAD_DIM) - 4 * c;

    if (kv_kind(VALUE_FORMAT) == KV_CODES)
        return value_codes(at, c);
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
uint scale_index(uint format, uint t, uint c)
{
    const uint group = kv_group(format, HEAD_DIM);

    return t * (HEAD_DIM / group) + c * 16 / group;
}

// Returns the factor of the elements of a chunk: 1 in formats without scales. @head: the result of head_at()
float key_scale(uint head, uint t, uint c)
{
    const uint i = scale_index(FORMAT, t, c);

    if (!INTS)
        return 1.0;
    return unpackHalf2x16(keys1[head + KV_TOKENS * kv_token_words(FORMAT, HEAD_DIM) + i / 2] >>
                          16 * (i % 2))
        .x;
}

float value_scale(uint head, uint t, uint c)
{
    const uint i = scale_index(VALUE_FORMAT, t, c);

    if (!INTS)
        return 1.0;
    return unpackHalf2x16(
               values1[values_at(head) + KV_TOKENS * kv_token_words(VALUE_FORMAT, HEAD_DIM) + i / 2] >>
               16 * (i % 2))
        .x;
}

#endif
