// SPDX-License-Identifier: Apache-2.0

// IQ4_NL: 32 weights, w = d × v, where v is one of 16 values.

#define BLOCK_ELEMS 32
#define BLOCK_BYTES 18
#define SUMS 1

#include "formats/parts/codes.glsl"
#include "formats/parts/iq4.glsl"

codes read_codes(bool second, uint at, uint k)
{
    const uint block = at + k / 32 * 18;

    return codes(read_iq4(second, block + 2, k), read_half(second, block), 0.0);
}
