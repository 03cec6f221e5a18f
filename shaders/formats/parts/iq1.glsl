// SPDX-License-Identifier: Apache-2.0

// Decodes the weights of IQ1_S and IQ1_M, which are odd numbers of eighths.

#include "formats/parts/grid.glsl"

// Returns 8 × (v ± 1/8) for 8 weights. @low: the low 8 bits of the index. @high: the other 3 bits of the index; if
// bit 3 is set, 1/8 is subtracted.
uvec2 iq1_eighths(uint low, uint high)
{
    const uvec2 point = grid_eight((low & 255) | (high & 7) << 8); // 8 v + 10

    return (point + ((high & 8) == 0 ? 0x77777777 : 0x75757575)) ^ 0x80808080;
}
