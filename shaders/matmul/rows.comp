// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes y = x · wᵀ, where each lane has whole rows of w.
//
// The kernel is for devices that compute on a CPU: it has no barriers and no shared memory, and each element is
// one sum in the order of k, whatever the tile. A lane has `columns` rows of w and `tile` rows of x, so that each
// loaded value is used in several products. Weights are read in chunks, whose code is small enough for the
// instruction cache. Workgroups: x counts groups of columns, y tiles of rows.

#include "matmul/product.glsl"
#include "matmul/add.glsl"

layout(local_size_x_id = 0) in;

void main()
{
    const uint K = push.K, N = push.N, M = rows_of_y();
    const uint lanes = gl_WorkGroupSize.x;
    const uint n = gl_WorkGroupID.x * lanes * columns + gl_LocalInvocationID.x;
    const uint m = gl_WorkGroupID.y * tile;
    const uint n_blocks = n_supers();
    uint at[n_rows], x_at[tile];
    float sums[n_rows][tile];

    if (!rows_begin(m))
        return;
    // Lanes and rows beyond the end compute what the last lane or row computes.
    [[unroll]] for (uint r = 0; r < n_rows; r++) {
        at[r] = row_at(r >= columns, min(n + r % columns * lanes, N - 1));
        [[unroll]] for (uint t = 0; t < tile; t++)
            sums[r][t] = 0;
    }

    [[unroll]] for (uint t = 0; t < tile; t++)
        x_at[t] = rows_from(min(m + t, M - 1)) * (K / 4);
    for (uint i = 0; i < n_blocks; i++) {
        head heads[n_rows];

        [[unroll]] for (uint r = 0; r < n_rows; r++)
            heads[r] = read_head(r >= columns, at[r]);
        [[dont_unroll]] for (uint c = 0; c < CHUNKS; c++)
            add_chunk(at, heads, c, x_at, sums);
        [[unroll]] for (uint r = 0; r < n_rows; r++)
            at[r] += SUPER_BYTES;
        [[unroll]] for (uint t = 0; t < tile; t++)
            x_at[t] += SUPER_ELEMS / 4;
    }

    // The loop above computes whole super-blocks. In formats with one element per block, K need not be a multiple
    // of a super-block, and the rest of the columns is computed here. If K is not a multiple of 4, the loop above
    // cannot read x, and all columns are computed here.
    [[unroll]] for (uint t = 0; t < tile; t++)
        x_at[t] = rows_from(min(m + t, M - 1)) * K + n_blocks * SUPER_ELEMS;
    for (uint k = 0; k < K - n_blocks * SUPER_ELEMS; k++)
        add_single(at, k, x_at, sums);

    [[unroll]] for (uint r = 0; r < columns; r++)
        if (n + r * lanes < N)
            [[unroll]] for (uint t = 0; t < tile; t++)
                if (m + t < M)
                    finish(m + t, n + r * lanes, sums[r][t], sums[n_rows - columns + r][t]);
}
