// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// y[m] = scale × row tokens[m] of a stored table
//
// Tables larger than a binding are split into ranges of rows with one dispatch each; rows of y whose token
// is in another range are not written. One invocation computes one element; workgroups (columns, rows).

#include "lib/access.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_embed)

IN_U4(0, w)
OUT_F32(3, y)

#include "lib/weight.glsl"

void main()
{
    const uint column = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (row >= step_n_rows() || column >= push.width)
        return;
    const uint i_row = step_token(row) - push.first;
    if (i_row >= push.count)
        return;
    precise float value = push.scale * weight(push.w_offset + i_row * push.row_bytes, column);
    y[row * push.width + column] = value;
}
