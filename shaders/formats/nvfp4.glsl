// SPDX-License-Identifier: Apache-2.0

// NVFP4: 64 weights in 4 groups of 16, w = s × v / 2. A scale s is a number in E4M3 without a sign.

#define BLOCK_ELEMS 64
#define BLOCK_BYTES 36
#define SUMS 2

#include "formats/parts/codes.glsl"
#include "formats/parts/fp4.glsl"

// Returns half of a scale. The code 127 stands for 0.
float nvfp4_scale(uint s)
{
    const uint e = s >> 3 & 15, m = s & 7;

    if (s == 127)
        return 0.0;
    return e == 0 ? float(m) * (1.0 / 1024.0) : float(8 + m) * uintBitsToFloat((e + 116) << 23);
}

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 64 * 36, group = k / 16 & 3;
    const uint[WORDS_MAX] pairs = read_words(second, block + 4 + 8 * group, 2, false);
    const uvec4 v = uvec4(fp4_codes(pairs[0]), fp4_codes(pairs[1]), fp4_codes(pairs[0] >> 4), fp4_codes(pairs[1] >> 4));

    return codes(bytes_less(v, 16), nvfp4_scale(read_byte(second, block + group)), 0.0);
}
