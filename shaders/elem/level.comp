// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes y = x × sqrt(mean(b²)) / sqrt(max(mean(x²), least)); least is push.factor.
//
// A workgroup computes one row: y counts rows.

#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // width is a multiple of 4

IN_F4(2, x4)
IN_F32(2, x1)
IN_F4(5, b4)
IN_F32(5, b1)
OUT_F4(3, y4)
OUT_F32(3, y1)
PUSH(push_elem)

void main()
{
    const uint row = gl_WorkGroupID.y, from = row * push.width;
    vec4 own = vec4(0), other = vec4(0);

    if (row >= step_rows(push.rows_kept))
        return;
    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.width / 4; i += gl_WorkGroupSize.x) {
            const vec4 x = x4(from / 4 + i), b = b4(from / 4 + i);

            own = fma(x, x, own);
            other = fma(b, b, other);
        }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.width; i += gl_WorkGroupSize.x) {
            own.x = fma(x1[from + i], x1[from + i], own.x);
            other.x = fma(b1[from + i], b1[from + i], other.x);
        }
    }

    const float mean = team_sum((own.x + own.y) + (own.z + own.w)) / float(push.width);
    const float like = team_sum((other.x + other.y) + (other.z + other.w)) / float(push.width);
    const float f = sqrt(like) / sqrt(max(mean, push.factor));

    if (WHOLE) {
        for (uint i = gl_LocalInvocationIndex; i < push.width / 4; i += gl_WorkGroupSize.x)
            y4[from / 4 + i] = x4(from / 4 + i) * f;
    } else {
        for (uint i = gl_LocalInvocationIndex; i < push.width; i += gl_WorkGroupSize.x)
            y1[from + i] = x1[from + i] * f;
    }
}
