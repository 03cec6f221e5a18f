// SPDX-License-Identifier: Apache-2.0
#ifndef ELEM_GLSL
#define ELEM_GLSL

// Defines the main function of kernels that compute each element by itself.
//
// An invocation computes 4 neighboring columns of a row. Workgroups: x counts columns, y rows.
// ELEM_MAIN(from_row, f4, f1) defines main(), which computes row `row` of y from row from_row of the operands.
// The kernel defines f1(i), the result for element i of the operands, and f4(i), the result for their elements
// 4i … 4i + 3.

#include "lib/push.glsl"
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

#define ELEM_MAIN(from_row, f4, f1)                                                                \
    void main()                                                                                    \
    {                                                                                              \
        const uint row = gl_WorkGroupID.y, column = 4 * gl_GlobalInvocationID.x;                   \
                                                                                                   \
        if (row >= step_rows(push.rows_kept) || column >= push.width)                              \
            return;                                                                                \
                                                                                                   \
        const uint from = from_row * push.width + column, to = row * push.width + column;          \
                                                                                                   \
        if (WHOLE) {                                                                               \
            y4[to / 4] = f4(from / 4);                                                             \
        } else {                                                                                   \
            for (uint j = 0; j < min(4, push.width - column); j++)                                 \
                y1[to + j] = f1(from + j);                                                         \
        }                                                                                          \
    }

#endif
