// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Converts rows of x to binary16 with a scale for each row, for matmul/coop.
//
// The scale is a power of two that scales the largest magnitude of a row to 2^14 … 2^15: nothing overflows,
// and smaller values keep as many digits as possible. The output contains all rows of halves, and then all
// scales. Rows are padded with zeros to a multiple of 32 columns. `width` is a multiple of 4. A workgroup
// converts one row; workgroups: y counts rows.

#include "lib/half.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_pack)

IN_F4(2, x)
OUT_U32(3, packed)

void main()
{
    const uint M = step_rows(push.rows_kept) * push.slots, row = gl_WorkGroupID.y;
    const uint n_quads = push.width / 4, pitch = (push.width + 31) / 32 * 16;

    if (row >= M)
        return;
    float largest = 0;

    for (uint i = gl_LocalInvocationIndex; i < n_quads; i += gl_WorkGroupSize.x) {
        const vec4 a = abs(x(row * n_quads + i));

        // max() may drop NaN, so NaN is handled separately.
        largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
    }
    largest = team_max(largest);

    // Rows of zeros and rows with infinity are not scaled.
    const int exponent = int(floatBitsToUint(largest) >> 23) - 127;
    const int shift = exponent < -112 || exponent > 127 ? 0 : clamp(14 - exponent, -113, 126);
    const float factor = power_of_2(shift);

    for (uint i = gl_LocalInvocationIndex; i < pitch / 2; i += gl_WorkGroupSize.x) {
        const vec4 v = i < n_quads ? x(row * n_quads + i) * factor : vec4(0);

        packed[row * pitch + 2 * i] = f16_pair(v.xy);
        packed[row * pitch + 2 * i + 1] = f16_pair(v.zw);
    }
    if (gl_LocalInvocationIndex == 0)
        packed[M * pitch + row] = floatBitsToUint(power_of_2(-shift));
}
