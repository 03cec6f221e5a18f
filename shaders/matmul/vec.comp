// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// Computes y = x · wᵀ for few rows of x. Each subgroup has some rows of w, and its lanes divide the
// chunks of these rows among them.
//
// Neighboring lanes read neighboring chunks, so that memory is read in order. A workgroup has
// `groups` times `columns` rows of w, whatever the size of its subgroups. The workgroup must not be
// smaller than a subgroup. The order of sums depends on the size of subgroups, and not on the tile.
// Workgroups: dimension x counts sets of `groups` times `columns` rows of w, each of which gives as
// many columns of the result; dimension y counts tiles of rows of the input.

#include "matmul/product.glsl"
#include "matmul/add.glsl"

layout(local_size_x_id = 0) in;
// The number of groups of rows of w; a subgroup processes one group at a time.
layout(constant_id = 5) const uint groups = 1;

// Adds the products of the chunks of one lane, for rows of w from @n on and rows of x from @m on.
void add_lane(uint n, uint m, uint M, inout float sums[n_rows][tile])
{
    const uint n_chunks = n_supers() * CHUNKS, rest = n_supers() * SUPER_ELEMS;
    uint first[n_rows], at[n_rows], x_first[tile], x_at[tile];

    [[unroll]] for (uint r = 0; r < n_rows; r++)
        first[r] = row_at(r >= columns, min(n + r % columns, push.N - 1));
    [[unroll]] for (uint t = 0; t < tile; t++)
        x_first[t] = rows_from(min(m + t, M - 1));

    for (uint i = gl_SubgroupInvocationID; i < n_chunks; i += gl_SubgroupSize) {
        const uint i_super = i / CHUNKS;
        head heads[n_rows];

        [[unroll]] for (uint r = 0; r < n_rows; r++) {
            at[r] = first[r] + i_super * SUPER_BYTES;
            heads[r] = read_head(r >= columns, at[r]);
        }
        [[unroll]] for (uint t = 0; t < tile; t++)
            x_at[t] = x_first[t] * (push.K / 4) + i_super * (SUPER_ELEMS / 4);
        add_chunk(at, heads, i % CHUNKS, x_at, sums);
    }

    [[unroll]] for (uint r = 0; r < n_rows; r++)
        at[r] = first[r] + rest / SUPER_ELEMS * SUPER_BYTES;
    [[unroll]] for (uint t = 0; t < tile; t++)
        x_at[t] = x_first[t] * push.K + rest;
    for (uint k = gl_SubgroupInvocationID; k < push.K - rest; k += gl_SubgroupSize)
        add_single(at, k, x_at, sums);
}

void main()
{
    const uint M = rows_of_y(), m = gl_WorkGroupID.y * tile;

    if (!rows_begin(m))
        return;
    for (uint g = gl_SubgroupID; g < groups; g += gl_NumSubgroups) {
        const uint n = (gl_WorkGroupID.x * groups + g) * columns;
        float sums[n_rows][tile];

        [[unroll]] for (uint r = 0; r < n_rows; r++)
            [[unroll]] for (uint t = 0; t < tile; t++)
                sums[r][t] = 0;
        add_lane(n, m, M, sums);
        [[unroll]] for (uint r = 0; r < n_rows; r++)
            [[unroll]] for (uint t = 0; t < tile; t++)
                sums[r][t] = subgroupAdd(sums[r][t]);
        if (subgroupElect())
            [[unroll]] for (uint r = 0; r < columns; r++)
                [[unroll]] for (uint t = 0; t < tile; t++)
                    if (n + r < push.N && m + t < M)
                        finish(m + t, n + r, sums[r][t], sums[n_rows - columns + r][t]);
    }
}
