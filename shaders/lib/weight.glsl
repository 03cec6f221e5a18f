// SPDX-License-Identifier: Apache-2.0
#ifndef WEIGHT_GLSL
#define WEIGHT_GLSL

// Reads weights in the format for which the kernel is compiled. The build includes the file of this format
// (formats/*.glsl) as "format.glsl".
//
// The layouts are those of libinfer/quant/block*.h and libinfer/backend/joined.h. A file defines, once for all kernels:
//
//   BLOCK_ELEMS, BLOCK_BYTES  the size of a block
//   weight_in_block(at, l)    weight l of the block at byte @at, with the bits of the format's reference
//   read_run(second, at, k)   the weights k … k + 15 of the row at byte @at, in the order of columns. k is a
//                             multiple of 16
//   chunks                    what kernels for few rows multiply at once, as matmul/chunk.glsl describes
//
// If separate code for each of these would gain nothing, the file defines only read_codes(), and includes
// formats/parts/codes.glsl, which makes the others from read_codes().
//
// The including file declares IN_U4(0, w) and defines texel(second, i), which reads 16 bytes of the first or the
// second matrix, and is_aligned, which is true if rows start at multiples of 16 bytes. Compilers remove the functions
// that a kernel does not call. Byte offsets are even, except in formats whose blocks have an odd number of bytes.

// Element by element, from the first matrix:

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

float weight_float(uint at) // @at: a multiple of 2
{
    return uintBitsToFloat(weight_u16(at) | weight_u16(at + 2) << 16);
}

// Returns the nibble of element l; the bytes from @at on have 16 pairs of nibbles.
uint weight_nibble(uint at, uint l)
{
    return weight_u8(at + (l & 15)) >> (l / 16 * 4) & 15;
}

// Many bytes at once:

#define WORDS_MAX 16

// Reads @n words of a matrix, beginning at byte @at, which is even. Texels of 16 bytes are read, and their words are
// shifted by 8, 4 and 2 bytes as @at requires. Entries from @n on are undefined. @n is a constant.
uint[WORDS_MAX] read_words(bool second, uint at, uint n, bool aligned)
{
    const uint n_texels = aligned ? (n + 3) / 4 : (4 * n + 14 + 15) / 16;
    const bool by_8 = (at & 8) != 0, by_4 = (at & 4) != 0, by_2 = (at & 2) != 0;
    uint all[WORDS_MAX + 4], words[WORDS_MAX];

    [[unroll]] for (uint i = 0; i < n_texels; i++) {
        const uvec4 four = texel(second, at / 16 + i);

        all[4 * i] = four.x;
        all[4 * i + 1] = four.y;
        all[4 * i + 2] = four.z;
        all[4 * i + 3] = four.w;
    }
    if (!aligned) {
        [[unroll]] for (uint i = 0; i < n + 2; i++)
            all[i] = by_8 ? all[i + 2] : all[i];
        [[unroll]] for (uint i = 0; i < n + 1; i++)
            all[i] = by_4 ? all[i + 1] : all[i];
        [[unroll]] for (uint i = 0; i < n; i++)
            all[i] = by_2 ? all[i] >> 16 | all[i + 1] << 16 : all[i];
    }
    [[unroll]] for (uint i = 0; i < n; i++)
        words[i] = all[i];
    return words;
}

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

float read_float(bool second, uint at) // @at: a multiple of 4
{
    return uintBitsToFloat(texel(second, at / 16)[at / 4 & 3]);
}

uint read_byte(bool second, uint at)
{
    return texel(second, at / 16)[at / 4 & 3] >> 8 * (at & 3) & 0xff;
}

// From bytes to floats:

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

// Returns the 4 bytes of a word as floats. The bytes 1 and 2 are masked but not shifted, because a shift costs
// more, so they are 256 and 65536 times too large. The caller multiplies the result, or what it computes from the
// result, by BYTE_UNIT.
vec4 byte_floats(uint word)
{
    return vec4(int(word & 0xff), int(word & 0xff00), int(word & 0xff0000), int(word >> 24));
}

#define BYTE_UNIT vec4(1.0, 1.0 / 256.0, 1.0 / 65536.0, 1.0)

// Returns the 4 signed bytes of a word, each multiplied by SIGNED_UNIT, as floats: a byte that is shifted to the
// high byte of a word keeps its sign.
vec4 signed_floats(uint word)
{
    return vec4(int(word << 24), int(word << 16 & 0xff000000), int(word << 8 & 0xff000000),
                int(word & 0xff000000));
}

#define SIGNED_UNIT 16777216.0

#include "format.glsl"

// Chunks are parts of blocks, if the format does not say otherwise.
#ifndef SUPER_ELEMS
#define SUPER_ELEMS BLOCK_ELEMS
#define SUPER_BYTES BLOCK_BYTES
#endif

// Returns weight k of the row at byte @at.
float weight(uint at, uint k)
{
    return weight_in_block(at + k / BLOCK_ELEMS * BLOCK_BYTES, k % BLOCK_ELEMS);
}

#endif
