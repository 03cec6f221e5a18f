// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// Computes y[m] = scale × row tokens[m] of a stored table. Tokens without a row read row 0.
//
// A table that is too large for one binding is split into ranges of rows, with one dispatch for each range.
// A dispatch writes only the rows of y whose tokens are in its range. An invocation computes one element;
// workgroups: x counts columns, y rows.

#include "lib/access.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_embed)

OUT_F32(3, y)

#include "lib/elements.glsl"

void main()
{
    const uint column = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (row >= step_n_rows() || column >= push.width)
        return;
    const uint token = step_token(row), i_row = (token < push.rows ? token : 0) - push.first;
    if (i_row >= push.count)
        return;
    precise float value = push.scale * weight(push.w_offset + i_row * push.row_bytes, column);
    y[row * push.width + column] = value;
}
