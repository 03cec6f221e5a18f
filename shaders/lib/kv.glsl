// SPDX-License-Identifier: Apache-2.0
#ifndef KV_GLSL
#define KV_GLSL

// Defines the layout of the KV store of one layer, and the number formats of keys and values.
//
// K and V are two buffers of blocks of 64 tokens: [block][kv head][token][head_dim]. With Q8_0 and codes
// (libinfer/quant/code.h), the bytes of a head in a block are followed by its F16 scales, [token][groups].
//
// A format is a number: KV_F32 to KV_Q8_0, or KV_CODES plus the members of codes below, as
// vkb_store_format() makes it.

const uint KV_TOKENS = 64;

const uint KV_F32 = 0, KV_F16 = 1, KV_BF16 = 2, KV_Q8_0 = 3, KV_CODES = 4;
// How a head is turned before it is stored
const uint KV_PLAIN = 0, KV_ROTATED = 1, KV_SIGNED = 2;
// How the scale of a group is found
const uint KV_SCALE_TOP = 0, KV_SCALE_FIT = 1, KV_SCALE_ROOT = 2;

uint kv_kind(uint format)
{
    return format & 15u;
}

// Returns the bits of a code.
uint kv_bits(uint format)
{
    return format >> 4 & 15u;
}

// Returns the turn of heads (KV_PLAIN …).
uint kv_turn(uint format)
{
    return format >> 8 & 3u;
}

// Returns how scales are found (KV_SCALE_TOP …).
uint kv_scaling(uint format)
{
    return format >> 10 & 3u;
}

// Returns whether the format stores whole numbers with scales.
bool kv_has_scales(uint format)
{
    return kv_kind(format) >= KV_Q8_0;
}

// Returns how many elements of a head share a scale.
uint kv_group(uint format, uint head_dim)
{
    const uint n = format >> 12 & 0xfffu;

    return kv_kind(format) == KV_Q8_0 ? 32 : n == 0 ? head_dim : min(n, head_dim);
}

// Returns how many words of 4 bytes one token of one head has, without scales.
uint kv_token_words(uint format, uint head_dim)
{
    return format == KV_F32              ? head_dim
           : format == KV_Q8_0           ? head_dim / 4
           : kv_kind(format) == KV_CODES ? head_dim * kv_bits(format) / 32
                                         : head_dim / 2;
}

// Returns how many words of 4 bytes one head of one block has, with scales.
uint kv_head_words(uint format, uint head_dim)
{
    return KV_TOKENS * kv_token_words(format, head_dim) +
           (kv_has_scales(format) ? KV_TOKENS / 2 * (head_dim / kv_group(format, head_dim)) : 0);
}

// The levels of codes, and the largest level of Max (1960) in standard deviations
const int KV_Q4[16] = {-123, -97, -77, -60, -45, -32, -19, -6, 6, 19, 32, 45, 60, 77, 97, 123};
const int KV_MAX4[16] = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};
const int KV_MAX3[8] = {-127, -79, -45, -14, 14, 45, 79, 127};
const int KV_MAX2[4] = {-127, -38, 38, 127};
const float KV_TOPS[5] = {0, 0.7979, 1.510, 2.152, 2.733};

int kv_level(uint format, uint code)
{
    const uint bits = kv_bits(format);

    if (bits > 4)
        return 2 * int(code) - (1 << bits) + 1;
    if (bits == 4)
        return kv_scaling(format) == KV_SCALE_TOP ? KV_Q4[code] : KV_MAX4[code];
    return bits == 3 ? KV_MAX3[code] : KV_MAX2[code];
}

// Returns four levels as int8. @codes has four codes in its bytes.
uint kv_levels(uint format, uint codes)
{
    const uint bits = kv_bits(format);

    // 2 × code - last: the top bit of each byte keeps the differences of bytes apart.
    if (bits > 4)
        return ((codes << 1 | 0x80808080u) - 0x01010101u * ((1u << bits) - 1u)) ^ 0x80808080u;
    return (uint(kv_level(format, codes & 255u)) & 255u) |
           (uint(kv_level(format, codes >> 8 & 255u)) & 255u) << 8 |
           (uint(kv_level(format, codes >> 16 & 255u)) & 255u) << 16 |
           uint(kv_level(format, codes >> 24)) << 24;
}

#endif
