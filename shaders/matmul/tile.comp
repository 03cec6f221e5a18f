// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// Computes y = x · wᵀ in tiles, for many rows of x, on any device.
//
// A workgroup multiplies `tile` rows of x and `width` rows of w. It advances along k in steps of DEPTH, and in
// each step copies its part of x and the decoded weights to shared memory. Each invocation computes 4 × 4
// sums, each in the order of k. K is a multiple of 16. Beyond the last row, elements of x and w are read as
// zero, and elements of y are not written. A workgroup has tile × width / 16 invocations; workgroups: x counts
// tiles of columns, y tiles of rows.

#include "matmul/product.glsl"

#define DEPTH 32
#define RUN 16u // the weights that read_run() reads

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint tile = 64;
layout(constant_id = 2) const uint width = 64;

IN_F4(2, x)

const uint n_matrices = is_glu ? 2 : 1;
// Pitches of the arrays [k][row] in shared memory, padded so that neighboring lanes write to different banks.
const uint w_pitch = width + 4, x_pitch = tile + 4;
shared float ws[n_matrices * DEPTH * w_pitch];
shared float xs[DEPTH * x_pitch];

void load_w(uint n0, uint k0)
{
    for (uint i = gl_LocalInvocationID.x; i < n_matrices * width * (DEPTH / RUN);
         i += gl_WorkGroupSize.x) {
        const uint matrix = i / (width * (DEPTH / RUN)), row = i / (DEPTH / RUN) % width;
        const uint k = i % (DEPTH / RUN) * RUN, to = (matrix * DEPTH + k) * w_pitch + row;
        const uint at = row_at(matrix != 0, min(n0 + row, push.N - 1));
        vec4 run[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));

        if (k0 + k < push.K)
            run = read_run(matrix != 0, at, k0 + k);
        [[unroll]] for (uint j = 0; j < RUN; j++)
            ws[to + j * w_pitch] = run[j / 4][j % 4];
    }
}

void load_x(uint m0, uint M, uint k0)
{
    for (uint i = gl_LocalInvocationID.x; i < tile * (DEPTH / 4); i += gl_WorkGroupSize.x) {
        const uint row = i / (DEPTH / 4), k = i % (DEPTH / 4) * 4;
        const uint from = min(m0 + row, M - 1) * push.K + k0 + k;
        const vec4 four = k0 + k < push.K ? x(from / 4) : vec4(0);

        [[unroll]] for (uint j = 0; j < 4; j++)
            xs[(k + j) * x_pitch + row] = four[j];
    }
}

// Adds one step to the sums of 4 rows of x from @m on and 4 rows of the matrix @matrix from @n on.
void add_step(uint matrix, uint n, uint m, inout vec4 sums[4])
{
    [[unroll]] for (uint k = 0; k < DEPTH; k++) {
        const uint w_from = (matrix * DEPTH + k) * w_pitch + n, x_from = k * x_pitch + m;
        const vec4 four =
            vec4(ws[w_from], ws[w_from + 1], ws[w_from + 2], ws[w_from + 3]);

        [[unroll]] for (uint i = 0; i < 4; i++)
            sums[i] = fma(vec4(xs[x_from + i]), four, sums[i]);
    }
}

void main()
{
    const uint M = step_rows(push.rows_kept);
    const uint m0 = gl_WorkGroupID.y * tile, n0 = gl_WorkGroupID.x * width;
    const uint n = gl_LocalInvocationID.x % (width / 4) * 4;
    const uint m = gl_LocalInvocationID.x / (width / 4) * 4;
    vec4 sums[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0)), sums2[4] = sums;

    for (uint k0 = 0; k0 < push.K; k0 += DEPTH) {
        load_w(n0, k0);
        load_x(m0, M, k0);
        barrier();
        add_step(0, n, m, sums);
        if (is_glu)
            add_step(1, n, m, sums2);
        barrier();
    }

    [[unroll]] for (uint i = 0; i < 4; i++)
        if (m0 + m + i < M)
            [[unroll]] for (uint j = 0; j < 4; j++)
                if (n0 + n + j < push.N)
                    finish(m0 + m + i, n0 + n + j, sums[i][j], sums2[i][j]);
}
