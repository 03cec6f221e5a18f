// SPDX-License-Identifier: Apache-2.0

// Reads points of a grid (libinfer/quant/grid.h), whose bytes are the magnitudes of weights. The host binds the grid of
// the format.

IN_U4(7, grid)

// Returns point @i of a grid of 8 coordinates.
uvec2 grid_eight(uint i)
{
    const uvec4 two = grid(i / 2);

    return (i & 1) == 0 ? two.xy : two.zw;
}

// Returns point @i of a grid of 4 coordinates.
uint grid_four(uint i)
{
    return grid(i / 4)[i & 3];
}

// Returns 8 signs. The first 7 are the low bits of @seven, and the eighth makes the number of set
// signs even.
uint all_signs(uint seven)
{
    return (seven & 127) | (bitCount(seven & 127) & 1) << 7;
}

// Returns 4 bytes, negated where bits 0 … 3 of @signs are set. The bytes are at least 1.
uint with_signs(uint magnitudes, uint signs)
{
    const uint negative = spread_bits(signs);

    return (magnitudes ^ negative * 255) + negative;
}

uvec2 with_signs(uvec2 magnitudes, uint signs)
{
    return uvec2(with_signs(magnitudes.x, signs), with_signs(magnitudes.y, signs >> 4));
}
