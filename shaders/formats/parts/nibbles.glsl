// SPDX-License-Identifier: Apache-2.0

// Reads blocks of 32 weights, each of which has 4 bits in one of 16 pairs of nibbles.

#include "formats/parts/block.glsl"
#include "formats/parts/bytes.glsl"
#include "formats/parts/low.glsl"
#include "formats/parts/whole.glsl"

// Splits 16 pairs of nibbles: words 0 … 3 of the chunk get the low nibbles, words 4 … 7 the high ones.
void split_nibbles(inout chunk c, uint i, uint pairs)
{
    c.words[i] = pairs & 0x0f0f0f0f;
    c.words[i + 4] = pairs >> 4 & 0x0f0f0f0f;
}

// Returns 16 nibbles of the block whose pairs are at byte @at: the low ones for k = 0, the high ones for k = 16.
uvec4 read_nibbles(bool second, uint at, uint k)
{
    return read_bytes(second, at, false) >> (k & 16) / 4 & 0x0f0f0f0f;
}
