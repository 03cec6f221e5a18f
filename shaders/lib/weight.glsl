// SPDX-License-Identifier: Apache-2.0
#ifndef WEIGHT_GLSL
#define WEIGHT_GLSL

// Reads one element of a stored row, in the formats of libinfer/quant/block.h and libinfer/backend/joined.h.
//
// The functions are for kernels that read few weights. The including file declares IN_U4(0, w) first. `at` is
// the byte offset of a row; it is even, except in MXFP4, which reads single bytes. The results have the same bits
// as those of libinfer/quant/block-decode.c.

#if defined(DTYPE_F32)
#define BLOCK_ELEMS 1
#define BLOCK_BYTES 4
#elif defined(DTYPE_F16) || defined(DTYPE_BF16)
#define BLOCK_ELEMS 1
#define BLOCK_BYTES 2
#elif defined(DTYPE_Q8_0)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 34
#elif defined(DTYPE_Q4_0)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 18
#elif defined(DTYPE_Q4_1)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 20
#elif defined(DTYPE_Q5_0)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 22
#elif defined(DTYPE_Q5_1)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 24
#elif defined(DTYPE_Q4_K)
#define BLOCK_ELEMS 256
#define BLOCK_BYTES 144
#elif defined(DTYPE_Q5_K)
#define BLOCK_ELEMS 256
#define BLOCK_BYTES 176
#elif defined(DTYPE_Q6_K)
#define BLOCK_ELEMS 256
#define BLOCK_BYTES 210
#elif defined(DTYPE_MXFP4)
#define BLOCK_ELEMS 32
#define BLOCK_BYTES 17
#elif defined(DTYPE_TQ2_0)
#define BLOCK_ELEMS 256
#define BLOCK_BYTES 66
#elif defined(DTYPE_TQ1_0)
#define BLOCK_ELEMS 256
#define BLOCK_BYTES 54
#elif defined(DTYPE_MLX2)
#define BLOCK_ELEMS 128
#define BLOCK_BYTES 36
#elif defined(DTYPE_BITNET)
#define BLOCK_ELEMS 16
#define BLOCK_BYTES 4
#endif

uint weight_u32(uint at) // @at: a multiple of 4
{
    return w(at >> 4)[(at >> 2) & 3];
}

uint weight_u16(uint at) // @at: a multiple of 2
{
    return bitfieldExtract(weight_u32(at & ~3u), int(at & 2) * 8, 16);
}

uint weight_u8(uint at)
{
    return bitfieldExtract(weight_u32(at & ~3u), int(at & 3) * 8, 8);
}

float weight_half(uint at)
{
    return unpackHalf2x16(weight_u16(at)).x;
}

// Returns bit i of the 32 high bits at @at, shifted to its place in a 5-bit number.
uint weight_high(uint at, uint i)
{
    return (weight_u8(at + i / 8) >> (i & 7) & 1) << 4;
}

// Returns the nibble of element l; the bytes from @at on have 16 pairs of nibbles.
uint weight_nibble(uint at, uint l)
{
    return weight_u8(at + (l & 15)) >> (l / 16 * 4) & 15;
}

// Returns the scale and the minimum of group g in Q4_K and Q5_K, which have 6 bits each.
uvec2 weight_k_scale(uint at, uint g)
{
    if (g < 4)
        return uvec2(weight_u8(at + g) & 63, weight_u8(at + g + 4) & 63);
    const uint low = weight_u8(at + g + 4);

    return uvec2((low & 15) | (weight_u8(at + g - 4) >> 6) << 4,
                 low >> 4 | (weight_u8(at + g) >> 6) << 4);
}

#if defined(DTYPE_F32)

float weight_in_block(uint at, uint l)
{
    return uintBitsToFloat(weight_u16(at) | weight_u16(at + 2) << 16);
}

#elif defined(DTYPE_F16)

float weight_in_block(uint at, uint l)
{
    return weight_half(at);
}

#elif defined(DTYPE_BF16)

float weight_in_block(uint at, uint l)
{
    return uintBitsToFloat(weight_u16(at) << 16);
}

#elif defined(DTYPE_Q8_0)

float weight_in_block(uint at, uint l)
{
    return weight_half(at) * float(bitfieldExtract(int(weight_u8(at + 2 + l)), 0, 8));
}

#elif defined(DTYPE_Q4_0)

float weight_in_block(uint at, uint l)
{
    return weight_half(at) * float(int(weight_nibble(at + 2, l)) - 8);
}

#elif defined(DTYPE_Q4_1)

float weight_in_block(uint at, uint l)
{
    precise float product = weight_half(at) * float(weight_nibble(at + 4, l));
    precise float sum = product + weight_half(at + 2);

    return sum;
}

#elif defined(DTYPE_Q5_0)

float weight_in_block(uint at, uint l)
{
    const uint q = weight_nibble(at + 6, l) | weight_high(at + 2, l);

    return weight_half(at) * float(int(q) - 16);
}

#elif defined(DTYPE_Q5_1)

float weight_in_block(uint at, uint l)
{
    precise float product = weight_half(at) * float(weight_nibble(at + 8, l) | weight_high(at + 4, l));
    precise float sum = product + weight_half(at + 2);

    return sum;
}

#elif defined(DTYPE_Q4_K) || defined(DTYPE_Q5_K)

#ifdef DTYPE_Q4_K
uint weight_k_q(uint at, uint l)
{
    return weight_u8(at + 16 + l / 64 * 32 + (l & 31)) >> (l / 32 % 2 * 4) & 15;
}
#else
uint weight_k_q(uint at, uint l)
{
    const uint low = weight_u8(at + 48 + l / 64 * 32 + (l & 31)) >> (l / 32 % 2 * 4) & 15;

    return low | (weight_u8(at + 16 + (l & 31)) >> (l / 32) & 1) << 4;
}
#endif

float weight_in_block(uint at, uint l)
{
    const uvec2 scale = weight_k_scale(at + 4, l / 32);
    precise float d = weight_half(at) * float(scale.x);
    precise float m = weight_half(at + 2) * float(scale.y);
    precise float product = d * float(weight_k_q(at, l));
    precise float sum = product - m;

    return sum;
}

#elif defined(DTYPE_Q6_K)

float weight_in_block(uint at, uint l)
{
    const uint part = l / 128, quarter = l / 32 & 3, i = l & 31;
    const uint low = weight_u8(at + 64 * part + 32 * (quarter & 1) + i) >> (quarter / 2 * 4) & 15;
    const uint high = weight_u8(at + 128 + 32 * part + i) >> (2 * quarter) & 3;
    const int scale = bitfieldExtract(int(weight_u8(at + 192 + l / 16)), 0, 8);
    precise float d = weight_half(at + 208) * float(scale);

    return d * float(int(low | high << 4) - 32);
}

#elif defined(DTYPE_MXFP4)

#include "lib/fp4.glsl"

float weight_in_block(uint at, uint l)
{
    return fp4_scale(weight_u8(at)) * float(int(fp4_codes(weight_nibble(at + 1, l)) & 255) - 16);
}

#elif defined(DTYPE_TQ2_0)

float weight_in_block(uint at, uint l)
{
    const uint q = weight_u8(at + l / 128 * 32 + (l & 31)) >> (l / 32 % 4 * 2) & 3;

    return weight_half(at + 64) * float(int(q) - 1);
}

#elif defined(DTYPE_TQ1_0)

#include "lib/ternary.glsl"

float weight_in_block(uint at, uint l)
{
    const uvec2 place = ternary_place(l);
    const uint q = ternary_digits(weight_u8(at + place.x), place.y);

    return weight_half(at + 52) * float(int(q) - 1);
}

#elif defined(DTYPE_MLX2)

float weight_in_block(uint at, uint l)
{
    const uint q = weight_u8(at + 4 + l / 16 * 4 + l % 4) >> (l / 4 % 4 * 2) & 3;
    precise float product = weight_half(at) * float(q);
    precise float sum = product + weight_half(at + 2);

    return sum;
}

#elif defined(DTYPE_BITNET)

float weight_in_block(uint at, uint l)
{
    return float(int(weight_u8(at + l % 4) >> (l / 4 * 2) & 3) - 1);
}

#endif

float weight(uint at, uint k)
{
    return weight_in_block(at + k / BLOCK_ELEMS * BLOCK_BYTES, k % BLOCK_ELEMS);
}

#endif
