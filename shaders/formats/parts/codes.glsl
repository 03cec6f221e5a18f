// SPDX-License-Identifier: Apache-2.0

// Makes all parts of a format from read_codes(). The format defines SUMS before it includes this file: 1 if the two
// halves of a chunk of 32 weights have the same scale, else 2.

#include "formats/parts/code-runs.glsl"
#include "formats/parts/whole.glsl"

#define CHUNKS (BLOCK_ELEMS / 32)
#define QUADS 8
#define QUAD_OFFSET(j) (j)
#define QUAD_UNIT vec4(1.0)
#define DOT_UNIT SIGNED_UNIT

struct head {
    uint none;
};

struct chunk {
    uint words[8];
    float scale[SUMS], low[SUMS];
};

head read_head(bool second, uint at)
{
    return head(0);
}

uint chunk_quad(uint c)
{
    return 8 * c;
}

chunk read_chunk(bool second, head h, uint at, uint i_chunk)
{
    chunk c;

    [[unroll]] for (uint part = 0; part < 2; part++) {
        const codes some = read_codes(second, at, 32 * i_chunk + 16 * part);

        [[unroll]] for (uint i = 0; i < 4; i++)
            c.words[4 * part + i] = some.q[i];
        c.scale[part * SUMS / 2] = some.scale * (1.0 / SIGNED_UNIT);
        c.low[part * SUMS / 2] = some.low;
    }
    return c;
}

vec4 quad(chunk c, uint j)
{
    return signed_floats(c.words[j]);
}

float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale[s] * dot_x;

#ifdef HAS_LOW
    precise float b = c.low[s] * plain;

    return a - b;
#else
    return a;
#endif
}
