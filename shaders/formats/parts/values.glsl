// SPDX-License-Identifier: Apache-2.0

// Reads blocks of 32 weights whose codes stand for floats, so that their products are computed in floats. A chunk is a
// block. A format defines SUMS, the number of scales of a block, read_chunk(), and quad(), which decodes codes.

#include "formats/parts/whole.glsl"

#define CHUNKS 1
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define QUAD_UNIT vec4(1.0)

struct head {
    uint none;
};

struct chunk {
    uint words[8]; // 4 codes each
    float scale[SUMS];
};

head read_head(bool second, uint at)
{
    return head(0);
}

uint chunk_quad(uint c)
{
    return 0;
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale[s] * dot_x;

    return a;
}
