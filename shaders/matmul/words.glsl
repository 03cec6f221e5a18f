// SPDX-License-Identifier: Apache-2.0
#ifndef WORDS_GLSL
#define WORDS_GLSL

// Reads words of 32 bits at any even byte offset.

#define WORDS_MAX 16

// Reads @n words of a matrix, beginning at byte @at. Texels of 16 bytes are read, and their words are shifted by 8, 4
// and 2 bytes as @at requires. Entries from @n on are undefined. @n is a constant.
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

#ifdef DTYPE_MXFP4
#include "lib/fp4.glsl"

// Reads the codes of the block at byte @at, which may be odd, and returns the scale of the block.
uint read_fp4(bool second, uint at, out uint codes[4])
{
    const uint[WORDS_MAX] words = read_words(second, at & ~1u, 5, false);
    const bool is_odd = (at & 1) != 0;

    [[unroll]] for (uint i = 0; i < 4; i++)
        codes[i] = is_odd ? words[i] >> 16 | words[i + 1] << 16 : words[i] >> 8 | words[i + 1] << 24;
    return (is_odd ? words[0] >> 8 : words[0]) & 0xff;
}
#endif

// Returns the 4 bytes of a word as floats. The bytes 1 and 2 are masked but not shifted, because a shift costs
// more, so they are 256 and 65536 times too large. The caller multiplies the result, or what it computes from the
// result, by BYTE_UNIT.
vec4 byte_floats(uint word)
{
    return vec4(int(word & 0xff), int(word & 0xff00), int(word & 0xff0000), int(word >> 24));
}

#define BYTE_UNIT vec4(1.0, 1.0 / 256.0, 1.0 / 65536.0, 1.0)

#endif
