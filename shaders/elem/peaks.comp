// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes y = max(x - mean - f × sqrt(variance), 0), with the mean and the variance of the row; f is push.factor.
//
// A workgroup computes one row: y counts rows.

#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // width is a multiple of 4

IN_F4(2, x4)
IN_F32(2, x1)
OUT_F4(3, y4)
OUT_F32(3, y1)
PUSH(push_elem)

// Returns the sum over the row of (x - center)², or without @squared, of x - center.
float sum_of(uint from, float center, bool squared)
{
    vec4 sum = vec4(0);

    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.width / 4; i += gl_WorkGroupSize.x) {
            const vec4 d = x4(from / 4 + i) - center;

            sum += squared ? d * d : d;
        }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.width; i += gl_WorkGroupSize.x) {
            const float d = x1[from + i] - center;

            sum.x += squared ? d * d : d;
        }
    }
    return team_sum((sum.x + sum.y) + (sum.z + sum.w));
}

void main()
{
    const uint row = gl_WorkGroupID.y, from = row * push.width;

    if (row >= step_rows(push.rows_kept))
        return;

    const float mean = sum_of(from, 0, false) / float(push.width);
    const float deviation = sqrt(sum_of(from, mean, true) / float(push.width));
    const float cut = fma(push.factor, deviation, mean);

    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.width / 4; i += gl_WorkGroupSize.x)
            y4[from / 4 + i] = max(x4(from / 4 + i) - cut, vec4(0));
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.width; i += gl_WorkGroupSize.x)
            y1[from + i] = max(x1[from + i] - cut, 0.0);
    }
}
