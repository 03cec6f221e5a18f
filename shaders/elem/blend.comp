// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes stream j of y as stream j of the base plus the sum over i of factor(j, i) × stream i of x. A factor
// is the sum of a factor of the row and a fixed factor.
//
// An invocation computes 4 neighboring columns of a row. Workgroups: x counts columns, y rows. Slots: 0 fixed
// factors, 2 x, 3 y, 5 base, 6 factors of rows.

#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // the width of a stream is a multiple of 4
layout(constant_id = 3) const bool HAS_BASE = true;
layout(constant_id = 4) const bool HAS_ROWS = true;
layout(constant_id = 5) const bool HAS_FIXED = true;

IN_F32(0, fixed_factors)
IN_F4(2, x4)
IN_F32(2, x1)
OUT_F4(3, y4)
OUT_F32(3, y1)
IN_F4(5, base4)
IN_F32(5, base1)
IN_F32(6, row_factors)
PUSH(push_blend)

// Returns the factor of stream i of x in stream j of y.
float factor(uint row, uint j, uint i)
{
    const uint at = j * push.n_in + i;

    return (HAS_ROWS ? row_factors[row * push.n_in * push.n_out + at] : 0) + (HAS_FIXED ? fixed_factors[at] : 0);
}

void main()
{
    const uint row = gl_WorkGroupID.y, column = 4 * gl_GlobalInvocationID.x, width = push.n_out * push.width;

    if (row >= step_rows(push.rows_kept) || column >= width)
        return;

    const uint to = row * width + column, x_row = row * push.n_in * push.width;

    if (WHOLE) {
        const uint j = column / push.width, from = x_row + column % push.width;
        vec4 sum = HAS_BASE ? base4(to / 4) : vec4(0);

        for (uint i = 0; i < push.n_in; i++)
            sum = fma(vec4(factor(row, j, i)), x4((from + i * push.width) / 4), sum);
        y4[to / 4] = sum;
        return;
    }
    for (uint k = 0; k < min(4, width - column); k++) {
        const uint j = (column + k) / push.width, from = x_row + (column + k) % push.width;
        float sum = HAS_BASE ? base1[to + k] : 0;

        for (uint i = 0; i < push.n_in; i++)
            sum = fma(factor(row, j, i), x1[from + i * push.width], sum);
        y1[to + k] = sum;
    }
}
