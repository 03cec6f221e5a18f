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
// `x_frags` × `w_frags` fragments of the result. The workgroup advances along k in steps of `depth`: it copies
// its part of x and the decoded weights of a step to shared memory as binary16, while it multiplies those of
// the previous step. Sums are floats, in the order of k. For a gated unit, half of a subgroup's columns belong
// to the second matrix.
//
// K is a multiple of 16. The number of subgroups must equal the number of blocks of fragments in the
// workgroup; therefore the host creates the pipeline with a required size of subgroups. Workgroups: x counts
// tiles of columns, y tiles of rows.

#include "matmul/product.glsl"
#include "matmul/run.glsl"
#include "matmul/coopmat.glsl"

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

// The pitch of rows in shared memory, in groups of 4 binary16. Rows are padded, so that they begin in
// different banks.
const uint pitch = depth / 4 + 2;
shared f16vec4 xs[tile * pitch];
shared f16vec4 ws[width * pitch];
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

// Reads the data that a lane copies in one step: runs of weights, and groups of 8 elements of x.
void read_step(uint n0, uint m0, uint M, uint k0, out f16vec4 some_w[n_fours],
               out uvec4 some_x[n_eights])
{
    const uint lane = gl_LocalInvocationID.x, x_pitch = (push.K + 31) / 32 * 4;

    [[unroll]] for (uint i = 0; i < n_runs; i++) {
        const uint row = (lane + i * n_lanes) / (depth / RUN);
        const uint k = k0 + (lane + i * n_lanes) % (depth / RUN) * RUN;
        const bool second = is_second(row);
        vec4 run[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));

        if (k < push.K)
            run = read_run(second, row_at(second, min(n0 + column_of(row), push.N - 1)), k);
        [[unroll]] for (uint j = 0; j < 4; j++)
            some_w[4 * i + j] = f16vec4(run[j]);
    }
    [[unroll]] for (uint i = 0; i < n_eights; i++) {
        const uint at = lane + i * n_lanes, row = min(m0 + at / (depth / 8), M - 1);

        some_x[i] = x(row * x_pitch + k0 / 8 + at % (depth / 8));
    }
}

void write_step(const f16vec4 some_w[n_fours], const uvec4 some_x[n_eights])
{
    const uint lane = gl_LocalInvocationID.x;

    [[unroll]] for (uint i = 0; i < n_runs; i++) {
        const uint at = lane + i * n_lanes;
        const uint to = at / (depth / RUN) * pitch + at % (depth / RUN) * (RUN / 4);

        [[unroll]] for (uint j = 0; j < 4; j++)
            ws[to + j] = some_w[4 * i + j];
    }
    [[unroll]] for (uint i = 0; i < n_eights; i++) {
        const uint at = lane + i * n_lanes;
        const uint to = at / (depth / 8) * pitch + at % (depth / 8) * 2;
        const uvec4 v = some_x[i];

        xs[to] = f16vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y));
        xs[to + 1] = f16vec4(unpackFloat2x16(v.z), unpackFloat2x16(v.w));
    }
}

void main()
{
    const uint M = step_rows(push.rows_kept), x_pitch = (push.K + 31) / 32 * 16;
    const uint m0 = gl_WorkGroupID.y * tile, n0 = gl_WorkGroupID.x * n_columns;
    // Find the block of fragments of this subgroup.
    const uint blocks = width / (FRAGMENT * w_frags);
    const uint w_first = gl_SubgroupID % blocks * w_frags * FRAGMENT;
    const uint x_first = gl_SubgroupID / blocks * x_frags * FRAGMENT;
    coopmat_sum sums[x_frags * w_frags];
    f16vec4 next_w[n_fours];
    uvec4 next_x[n_eights];

    [[unroll]] for (uint i = 0; i < x_frags * w_frags; i++)
        sums[i] = coopmat_fill(0.0);
    read_step(n0, m0, M, 0, next_w, next_x);
    for (uint k0 = 0; k0 < push.K; k0 += depth) {
        write_step(next_w, next_x);
        barrier();
        if (k0 + depth < push.K)
            read_step(n0, m0, M, k0 + depth, next_w, next_x);
        [[unroll]] for (uint k = 0; k < depth; k += FRAGMENT) {
            coopmat_a a[x_frags];

            [[unroll]] for (uint i = 0; i < x_frags; i++)
                a[i] = coopmat_load_a(xs[(x_first + i * FRAGMENT) * pitch + k / 4], COOPMAT_ROWS,
                                      pitch);
            [[unroll]] for (uint j = 0; j < w_frags; j++) {
                const coopmat_b b = coopmat_load_b(ws[(w_first + j * FRAGMENT) * pitch + k / 4],
                                                   COOPMAT_COLUMNS, pitch);

                [[unroll]] for (uint i = 0; i < x_frags; i++)
                    sums[i * w_frags + j] = coopmat_add(a[i], b, sums[i * w_frags + j]);
            }
        }
        barrier();
    }

    // Fragments are copied through shared memory, because it is not specified which elements a lane has.
    const uint part = gl_SubgroupID * n_matrices * FRAGMENT * FRAGMENT;
    const uint n_outs = is_glu ? w_frags / 2 : w_frags;

    [[unroll]] for (uint i = 0; i < x_frags; i++)
        [[unroll]] for (uint j = 0; j < n_outs; j++) {
            coopmat_store(parts[part], sums[i * w_frags + j], COOPMAT_ROWS, FRAGMENT);
            if (is_glu)
                coopmat_store(parts[part + FRAGMENT * FRAGMENT],
                              sums[i * w_frags + w_frags - n_outs + j], COOPMAT_ROWS, FRAGMENT);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < FRAGMENT * FRAGMENT; e += gl_SubgroupSize) {
                const uint m = m0 + x_first + i * FRAGMENT + e / FRAGMENT;
                const uint n = n0 + column_of(w_first + j * FRAGMENT) + e % FRAGMENT;

                if (m < M && n < push.N) {
                    const float scale = x_scales[M * x_pitch + m];

                    finish(m, n, parts[part + e] * scale,
                           is_glu ? parts[part + FRAGMENT * FRAGMENT + e] * scale : 0.0);
                }
            }
            barrier();
        }
}
