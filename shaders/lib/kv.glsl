// SPDX-License-Identifier: Apache-2.0
#ifndef KV_GLSL
#define KV_GLSL

// Defines the layout of the KV store of one layer.
//
// K and V are two buffers of blocks of 64 tokens: [block][kv head][token][head_dim]. With Q8_0, the int8
// values of a head in a block are followed by its F16 scales, [token][head_dim / 32].

const uint KV_TOKENS = 64;

const uint KV_F32 = 0, KV_F16 = 1, KV_BF16 = 2, KV_Q8_0 = 3;

// Returns how many words of 4 bytes one token of one head has, without scales.
uint kv_token_words(uint format, uint head_dim)
{
    return format == KV_F32 ? head_dim : format == KV_Q8_0 ? head_dim / 4 : head_dim / 2;
}

// Returns how many words of 4 bytes one head of one block has, with scales.
uint kv_head_words(uint format, uint head_dim)
{
    return KV_TOKENS * kv_token_words(format, head_dim) +
           (format == KV_Q8_0 ? KV_TOKENS * head_dim / 64 : 0);
}

#endif
