// SPDX-License-Identifier: Apache-2.0

// Reads chunks of formats whose blocks have 32 weights and one scale. A chunk is a block. A format defines
// read_chunk(), quad() with QUAD_UNIT and DOT_UNIT, and scaled().

#define CHUNKS 1
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define SUMS 1

struct head {
    uint none;
};

struct chunk {
    uint words[8]; // 4 weights each, one byte per weight
    float scale, low;
};

head read_head(bool second, uint at)
{
    return head(0);
}

uint chunk_quad(uint c)
{
    return 0;
}
