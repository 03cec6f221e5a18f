// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require

// Computes y = x · wᵀ with the matrix units of a GPU, for many rows of x, which matmul/halve has converted.
//
// A workgroup multiplies `tile` rows of x and `width` rows of w. Each of its subgroups computes a block of
// `x_frags` × `w_frags` fragments of the result. The workgroup advances along k in steps of `depth`. In each step,
// it copies a part of x and the decoded weights to one half of shared memory as binary16. At the same time it
// multiplies what the previous step copied to the other half. Sums are floats, in the order of k. For a gated
// unit, half of a subgroup's columns belong to the second matrix.
//
// K is a multiple of 16. The number of subgroups must equal the number of blocks of fragments in the
// workgroup; therefore the host creates the pipeline with a required size of subgroups. Workgroups: x counts
// tiles of columns, y tiles of rows.

#include "matmul/product.glsl"
#include "matmul/coopmat.glsl"

#define RUN 16u // the weights that read_run() reads

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint tile = 64;
layout(constant_id = 2) const uint width = 64;
layout(constant_id = 5) const uint x_frags = 2;
layout(constant_id = 6) const uint w_frags = 2;
// The numbers of invocations and of subgroups in the workgroup
layout(constant_id = 7) const uint n_lanes = 128;
layout(constant_id = 8) const uint n_subgroups = 4;
// The length of one step along k: a multiple of 16
layout(constant_id = 9) const uint depth = 32;

IN_U4(2, x)
IN_F32(2, x_scales)

// The pitch of rows in shared memory, in pairs of binary16. Rows are padded, so that they begin in different
// banks.
const uint pitch = depth / 2 + 4;
// The data of two steps
shared f16vec2 xs[2 * tile * pitch];
shared f16vec2 ws[2 * width * pitch];
const uint n_matrices = is_glu ? 2 : 1;
shared float parts[n_subgroups * n_matrices * FRAGMENT * FRAGMENT];

const uint n_columns = is_glu ? width / 2 : width;
const uint n_runs = width * (depth / RUN) / n_lanes, n_fours = n_runs * 4;
const uint n_eights = tile * (depth / 8) / n_lanes;

// Returns whether row @i of ws belongs to the second matrix.
bool is_second(uint i)
{
    return is_glu && i / FRAGMENT % w_frags >= w_frags / 2;
}

// Returns the column of row @i of ws, counted from the first column of the workgroup.
uint column_of(uint i)
{
    if (!is_glu)
        return i;
    return (i / FRAGMENT / w_frags * (w_frags / 2) + i / FRAGMENT % (w_frags / 2)) * FRAGMENT +
           i % FRAGMENT;
}

// Reads the data that a lane copies in one step: runs of weights, and groups of 8 elements of x. Columns that
// do not exist are 0. There are no branches, so that compilers can place the products of the previous step
// between reading and decoding.
void read_step(uint n0, uint m0, uint M, uint k0, out f16vec4 some_w[n_fours],
               out uvec4 some_x[n_eights])
{
    const uint lane = gl_LocalInvocationID.x, x_pitch = (push.K + 31) / 32 * 4;

    [[unroll]] for (uint i = 0; i < n_runs; i++) {
        const uint row = (lane + i * n_lanes) / (depth / RUN);
        const uint k = k0 + (lane + i * n_lanes) % (depth / RUN) * RUN;
        const bool second = is_second(row);
        const vec4 run[4] = read_run(second, row_at(second, min(n0 + column_of(row), push.N - 1)),
                                     min(k, push.K - RUN));

        [[unroll]] for (uint j = 0; j < 4; j++)
            some_w[4 * i + j] = k < push.K ? f16vec4(run[j]) : f16vec4(0);
    }
    [[unroll]] for (uint i = 0; i < n_eights; i++) {
        const uint at = lane + i * n_lanes, row = min(m0 + at / (depth / 8), M - 1);
        const uint eight = k0 / 8 + at % (depth / 8);
        const uvec4 v = x(row * x_pitch + min(eight, x_pitch - 1));

        some_x[i] = eight < x_pitch ? v : uvec4(0);
    }
}

// Writes the data of a step to half @i_half of shared memory.
void write_step(uint i_half, const f16vec4 some_w[n_fours], const uvec4 some_x[n_eights])
{
    const uint lane = gl_LocalInvocationID.x;

    [[unroll]] for (uint i = 0; i < n_runs; i++) {
        const uint at = lane + i * n_lanes, row = i_half * width + at / (depth / RUN);
        const uint to = row * pitch + at % (depth / RUN) * (RUN / 2);

        [[unroll]] for (uint j = 0; j < 4; j++) {
            ws[to + 2 * j] = some_w[4 * i + j].xy;
            ws[to + 2 * j + 1] = some_w[4 * i + j].zw;
        }
    }
    [[unroll]] for (uint i = 0; i < n_eights; i++) {
        const uint at = lane + i * n_lanes, row = i_half * tile + at / (depth / 8);
        const uint to = row * pitch + at % (depth / 8) * 4;
        const uvec4 v = some_x[i];

        xs[to] = unpackFloat2x16(v.x);
        xs[to + 1] = unpackFloat2x16(v.y);
        xs[to + 2] = unpackFloat2x16(v.z);
        xs[to + 3] = unpackFloat2x16(v.w);
    }
}

// Writes the fragment of y that begins at row @m and column @n, and that the subgroup has stored in its part of
// shared memory. The extension does not specify which elements of a fragment a lane has.
void finish_part(uint m, uint n, uint M)
{
    const uint part = gl_SubgroupID * n_matrices * FRAGMENT * FRAGMENT;

    barrier();
    for (uint e = gl_SubgroupInvocationID; e < FRAGMENT * FRAGMENT; e += gl_SubgroupSize) {
        const uint i = m + e / FRAGMENT, j = n + e % FRAGMENT;

        if (i < M && j < push.N) {
            const float scale = x_scales[M * ((push.K + 31) / 32 * 16) + i];

            finish(i, j, parts[part + e] * scale,
                   is_glu ? parts[part + FRAGMENT * FRAGMENT + e] * scale : 0.0);
        }
    }
    barrier();
}

// Compilers keep an array of cooperative matrices in registers only if all of its indices are constants. In a
// loop that contains a loop of unknown length, the index of the outer loop is not a constant, even if the outer
// loop is marked to be unrolled. Therefore the loops over sums are macros. Some drivers end the process if an
// index is too large, even in code that is never reached.
#define SUM(i, j)    (((i) * w_frags + (j)) % (x_frags * w_frags))
#define FOR_4(macro) macro(0) macro(1) macro(2) macro(3)
#define CLEAR(i, j)                                                                                \
    if (i < x_frags && j < w_frags)                                                                \
        sums[SUM(i, j)] = coopmat_fill(0.0);
#define CLEAR_ROW(i) CLEAR(i, 0) CLEAR(i, 1) CLEAR(i, 2) CLEAR(i, 3)
#define OUT(i, j)                                                                                  \
    if (i < x_frags && j < n_outs) {                                                               \
        coopmat_store(parts[part], sums[SUM(i, j)], COOPMAT_ROWS, FRAGMENT);                       \
        if (is_glu)                                                                                \
            coopmat_store(parts[part + FRAGMENT * FRAGMENT], sums[SUM(i, n_outs + j)],             \
                          COOPMAT_ROWS, FRAGMENT);                                                 \
        finish_part(m0 + x_first + i * FRAGMENT, n0 + column_of(w_first + j * FRAGMENT), M);       \
    }
#define OUT_ROW(i) OUT(i, 0) OUT(i, 1) OUT(i, 2) OUT(i, 3)

void main()
{
    const uint M = step_rows(push.rows_kept);
    const uint m0 = gl_WorkGroupID.y * tile, n0 = gl_WorkGroupID.x * n_columns;
    // Find the block of fragments of this subgroup.
    const uint blocks = width / (FRAGMENT * w_frags);
    const uint w_first = gl_SubgroupID % blocks * w_frags * FRAGMENT;
    const uint x_first = gl_SubgroupID / blocks * x_frags * FRAGMENT;
    const uint part = gl_SubgroupID * n_matrices * FRAGMENT * FRAGMENT;
    const uint n_outs = is_glu ? w_frags / 2 : w_frags;
    coopmat_sum sums[x_frags * w_frags];
    f16vec4 next_w[n_fours];
    uvec4 next_x[n_eights];
    uint i_half = 0;

    FOR_4(CLEAR_ROW)
    read_step(n0, m0, M, 0, next_w, next_x);
    write_step(0, next_w, next_x);
    for (uint k0 = 0; k0 < push.K; k0 += depth) {
        const uint x_at = (i_half * tile + x_first) * pitch;
        const uint w_at = (i_half * width + w_first) * pitch;

        // All subgroups have written this half, and have read the other half.
        barrier();
        read_step(n0, m0, M, k0 + depth, next_w, next_x);
        [[unroll]] for (uint k = 0; k < depth; k += FRAGMENT) {
            coopmat_a a[x_frags];

            [[unroll]] for (uint i = 0; i < x_frags; i++)
                a[i] = coopmat_load_a(xs[x_at + i * FRAGMENT * pitch + k / 2], COOPMAT_ROWS, pitch);
            [[unroll]] for (uint j = 0; j < w_frags; j++) {
                const coopmat_b b = coopmat_load_b(ws[w_at + j * FRAGMENT * pitch + k / 2],
                                                   COOPMAT_COLUMNS, pitch);

                [[unroll]] for (uint i = 0; i < x_frags; i++)
                    sums[i * w_frags + j] = coopmat_add(a[i], b, sums[i * w_frags + j]);
            }
        }
        i_half ^= 1;
        write_step(i_half, next_w, next_x);
    }
    FOR_4(OUT_ROW)
}
