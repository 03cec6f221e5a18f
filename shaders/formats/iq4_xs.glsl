// SPDX-License-Identifier: Apache-2.0

// IQ4_XS: 256 weights in 8 groups of 32, w = d × (sc - 32) × v, where v is one of 16 values.

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 136
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/iq4.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 136, group = k / 32 & 7;
    const uint head = read_word(second, block); // d, then the high bits of the scales
    const uint scale_low = read_byte(second, block + 4 + group / 2) >> group % 2 * 4 & 15;
    const uint scale = scale_low | (head >> (16 + 2 * group) & 3) << 4;

    return codes(read_iq4(second, block + 8 + 16 * group, k), unpackHalf2x16(head).x * float(int(scale) - 32), 0.0);
}
