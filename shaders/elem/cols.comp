// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Copies some columns of x to one part of y: of each run of `stride` columns, the n columns from `first` on.
//
// An invocation copies 4 neighboring columns of a row. Workgroups: x counts columns of the part, y rows. Slots:
// 2 x, 3 y.

#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // all counts of columns are multiples of 4

IN_F4(2, x4)
IN_F32(2, x1)
OUT_F4(3, y4)
OUT_F32(3, y1)
PUSH(push_cols)

// Returns the element of x for column @column of the part.
uint from(uint row, uint column)
{
    return row * push.x_width + column / push.n * push.stride + push.first + column % push.n;
}

void main()
{
    const uint row = gl_WorkGroupID.y, column = 4 * gl_GlobalInvocationID.x;

    if (row >= step_rows(push.rows_kept) || column >= push.columns)
        return;

    const uint to = row * push.width + push.at + column;

    if (WHOLE) {
        y4[to / 4] = x4(from(row, column) / 4);
    } else {
        for (uint j = 0; j < min(4, push.columns - column); j++)
            y1[to + j] = x1[from(row, column + j)];
    }
}
