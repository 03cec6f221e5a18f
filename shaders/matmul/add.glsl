// SPDX-License-Identifier: Apache-2.0
#ifndef ADD_GLSL
#define ADD_GLSL

// Multiplies a chunk of several rows of w by several rows of x, in floats.

#include "matmul/chunk.glsl"

IN_F4(2, x)
IN_F32(2, x_array)

#ifdef TEXEL

// True if subgroups have 8 lanes: each lane then reads one of 8 quads of x, and gets the others by shuffles. On
// software devices a shuffle costs one instruction per number, and a read of the same number by all lanes costs
// ten.
layout(constant_id = 5) const bool is_shared = false;
const uint n_parts = is_shared && QUADS >= 8 ? QUADS / 8 : 1;

void share_quads(uint first, out vec4 parts[n_parts])
{
    [[unroll]] for (uint i = 0; i < n_parts; i++)
        parts[i] = is_shared ? x(first + QUAD_OFFSET(8 * i + gl_SubgroupInvocationID)) : vec4(0);
}

vec4 take_quad(uint first, const vec4 parts[n_parts], uint j)
{
    const vec4 part = parts[j / 8 % n_parts];

    if (!is_shared || QUADS < 8)
        return x(first + QUAD_OFFSET(j));
    return vec4(subgroupShuffle(part.x, j % 8), subgroupShuffle(part.y, j % 8),
                subgroupShuffle(part.z, j % 8), subgroupShuffle(part.w, j % 8));
}

#else

const uint n_parts = 1;

void share_quads(uint first, out vec4 parts[n_parts])
{
}

vec4 take_quad(uint first, const vec4 parts[n_parts], uint j)
{
    return x(first + QUAD_OFFSET(j));
}

#endif

// Adds the products of chunk @c of the blocks at bytes @at to @sums. @x_at are the first quads of x that
// belong to these blocks, one for each row of x.
void add_chunk(const uint at[n_rows], const head heads[n_rows], uint c, const uint x_at[tile],
               inout float sums[n_rows][tile])
{
    chunk chunks[n_rows];
    precise float dots[n_rows][tile][SUMS], plain[tile][SUMS];

    [[unroll]] for (uint r = 0; r < n_rows; r++)
        chunks[r] = read_chunk(r >= columns, heads[r], at[r], c);
    [[unroll]] for (uint t = 0; t < tile; t++)
        [[unroll]] for (uint s = 0; s < SUMS; s++) {
            plain[t][s] = 0;
            [[unroll]] for (uint r = 0; r < n_rows; r++)
                dots[r][t][s] = 0;
        }
    vec4 parts[tile][n_parts];

    [[unroll]] for (uint t = 0; t < tile; t++)
        share_quads(x_at[t] + chunk_quad(c), parts[t]);
    [[unroll]] for (uint j = 0; j < QUADS; j++) {
        const uint s = j * SUMS / QUADS;
        vec4 xs[tile];

        [[unroll]] for (uint t = 0; t < tile; t++) {
            xs[t] = take_quad(x_at[t] + chunk_quad(c), parts[t], j);
            plain[t][s] += (xs[t].x + xs[t].y) + (xs[t].z + xs[t].w);
            xs[t] *= QUAD_UNIT;
        }
        [[unroll]] for (uint r = 0; r < n_rows; r++) {
            const vec4 q = quad(chunks[r], j);

            [[unroll]] for (uint t = 0; t < tile; t++) {
                dots[r][t][s] += q.x * xs[t].x;
                dots[r][t][s] += q.y * xs[t].y;
                dots[r][t][s] += q.z * xs[t].z;
                dots[r][t][s] += q.w * xs[t].w;
            }
        }
    }
    [[unroll]] for (uint r = 0; r < n_rows; r++)
        [[unroll]] for (uint t = 0; t < tile; t++)
            [[unroll]] for (uint s = 0; s < SUMS; s++) {
                precise float sum = sums[r][t] + scaled(chunks[r], s, dots[r][t][s], plain[t][s]);

                sums[r][t] = sum;
            }
}

// Adds the products with column @k of x. The rows of x begin at elements @x_at.
void add_single(const uint at[n_rows], uint k, const uint x_at[tile],
                inout float sums[n_rows][tile])
{
    [[unroll]] for (uint r = 0; r < n_rows; r++) {
        const float q = single(r >= columns, at[r], k);

        [[unroll]] for (uint t = 0; t < tile; t++) {
            precise float sum = sums[r][t] + q * x_array[x_at[t] + k];

            sums[r][t] = sum;
        }
    }
}

#endif
