// SPDX-License-Identifier: Apache-2.0

// Reads chunks of Q2_K, Q3_K and Q6_K, which have 16 groups of 16 weights. A chunk has 64 weights, 16 from each quarter
// of half a block. The bits of different quarters are in the same bytes. A format defines struct head and struct chunk,
// read_head(), read_chunk() and scaled().

#define CHUNKS 4
#define QUADS 16
#define QUAD_OFFSET(j) ((j) % 4 + (j) / 4 * 8)
#define SUMS 4

// Returns the first quad of chunk c, which consists of half c % 2 of each quarter of half c / 2 of the block. The scale
// of quarter i is that of group 8 (c / 2) + 2 i + c % 2.
uint chunk_quad(uint c)
{
    return c / 2 * 32 + c % 2 * 4;
}

#include "formats/parts/whole.glsl"
