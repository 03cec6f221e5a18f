// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes for each row the weighted sum of the results of its experts. A row of x has a slot for each expert
// that is selected for it. The slots are added in their order, each times its weight in the route.
//
// An invocation computes 4 neighboring columns of a row. Workgroups: x counts columns, y rows. Bindings
// (lib/access.glsl): 2 x, 3 y, 5 route.

#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // width is a multiple of 4

IN_F4(2, x4)
IN_F32(2, x1)
OUT_F4(3, y4)
OUT_F32(3, y1)
IN_F32(5, route)
PUSH(push_mix)

void main()
{
    const uint row = gl_WorkGroupID.y, column = 4 * gl_GlobalInvocationID.x;

    if (row >= step_rows(push.rows_kept) || column >= push.width)
        return;

    const uint from = row * push.slots * push.width + column, to = row * push.width + column;

    if (WHOLE) {
        vec4 sum = vec4(0);

        for (uint i = 0; i < push.slots; i++)
            sum = fma(vec4(route[2 * row * push.slots + i]), x4((from + i * push.width) / 4), sum);
        y4[to / 4] = sum;
        return;
    }
    for (uint j = 0; j < min(4, push.width - column); j++) {
        float sum = 0;

        for (uint i = 0; i < push.slots; i++)
            sum = fma(route[2 * row * push.slots + i], x1[from + i * push.width + j], sum);
        y1[to + j] = sum;
    }
}
