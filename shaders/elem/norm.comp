// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes y = x / sqrt(mean(x²) + eps) × w, with a mean for each group of columns.
//
// With PACK, the result is converted as matmul/quantise does it, and y is not written. A workgroup computes
// one group of one row: x counts groups, y rows.

#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"
#include "matmul/bytes.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // group and width are multiples of 4
layout(constant_id = 3) const bool HAS_W = true;
layout(constant_id = 4) const bool GATHER = false; // only rows whose logits are requested are computed
// Needs a group that is the whole row and a multiple of 32, and workgroups and subgroups with a
// multiple of 8 invocations.
layout(constant_id = 5) const bool PACK = false;

IN_F4(0, w4)
IN_F32(0, w1)
IN_F4(2, x4)
IN_F32(2, x1)
OUT_F4(3, y4)
OUT_F32(3, y1)
OUT_U32(5, packed)
PUSH(push_norm)

// Packs elements 4i … 4i + 3 of row @row. The 8 invocations that have a block find its magnitude together.
void pack_four(vec4 v, uint row, uint i)
{
    const uint n_rows = step_rows(push.rows_kept), n_fours = push.width / 4;
    float amax = magnitude(v);

    for (uint o = 1; o < 8; o <<= 1)
        amax = max(amax, subgroupShuffleXor(amax, o));
    packed[row * n_fours + i] = block_bytes(v, amax);
    if (i % 8 == 0)
        packed[n_rows * n_fours + row * (n_fours / 8) + i / 8] = block_scale(amax);
}

// Returns the sum of squares of this invocation's elements of the group that begins at @from.
float squares(uint from)
{
    vec4 sum = vec4(0);

    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.group / 4; i += gl_WorkGroupSize.x) {
            const vec4 x = x4(from / 4 + i);

            sum = fma(x, x, sum);
        }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.group; i += gl_WorkGroupSize.x)
            sum.x = fma(x1[from + i], x1[from + i], sum.x);
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

void main()
{
    const uint row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * push.group;

    if (row >= step_rows(push.rows_kept))
        return;

    const uint from = (GATHER ? step_logit_row(row) : row) * push.width + first;
    const uint to = row * push.width + first;
    const float f = 1.0 / sqrt(team_sum(squares(from)) / float(push.group) + push.eps);

    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.group / 4; i += gl_WorkGroupSize.x) {
            const vec4 x = x4(from / 4 + i) * f;
            const vec4 y = HAS_W ? x * w4(i) : x;

            if (PACK)
                pack_four(y, row, i);
            else
                y4[to / 4 + i] = y;
        }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.group; i += gl_WorkGroupSize.x) {
            const float x = x1[from + i] * f;

            y1[to + i] = HAS_W ? x * w1[i] : x;
        }
    }
}
