// SPDX-License-Identifier: Apache-2.0

// Decodes the weights of IQ1_S and IQ1_M, which are odd numbers of eighths.

#include "formats/parts/grid.glsl"

// Returns 8 × (v ± 1/8) for 8 weights. @low: the low 8 bits of the index. @high: its other 3 bits, and bit 3: 1/8 is
// subtracted.
uvec2 iq1_eighths(uint low, uint high)
{
    const uvec2 point = grid_eight((low & 255) | (high & 7) << 8); // 8 × (v + 1)

    return (point + ((high & 8) == 0 ? 0x79797979 : 0x77777777)) ^ 0x80808080;
}
