// SPDX-License-Identifier: Apache-2.0

// Q3_K: 256 weights in 16 groups of 16, w = d × (sc - 32) × (q - 4).

#define BLOCK_ELEMS 256
#define BLOCK_BYTES 110
#define SUMS 2

#include "formats/parts/codes.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 256 * 110, l = k & 255, group = l / 16;
    const uvec4 high = read_bytes(second, block + (l & 16), false) >> l / 32;
    const uvec4 low = read_bytes(second, block + 32 + l / 128 * 32 + (l & 16), false) >> l / 32 % 4 * 2;
    const uint scale_low = read_byte(second, block + 96 + group % 8) >> group / 8 * 4 & 15;
    const uint scale_high = read_byte(second, block + 104 + group % 4) >> group / 4 * 2 & 3;
    const float scale = read_half(second, block + 108) * float(int(scale_low | scale_high << 4) - 32);

    return codes(bytes_less((low & 0x03030303) | (high & 0x01010101) << 2, 4), scale, 0.0);
}
