// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Converts rows of x to blocks of 32 int8 with a scale, for matmul/vecdot.
//
// An invocation converts one block; workgroups: x counts the blocks of a row, y rows.

#include "lib/access.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"
#include "matmul/bytes.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_pack)

IN_F4(2, x)
OUT_U32(3, packed)

void main()
{
    const uint M = step_rows(push.rows_kept) * push.slots, row = gl_WorkGroupID.y;
    const uint block = gl_GlobalInvocationID.x, n_blocks = push.width / 32;
    if (row >= M || block >= n_blocks)
        return;
    const uint first = row * (push.width / 4) + 8 * block;
    vec4 v[8];
    float amax = 0;

    for (uint i = 0; i < 8; i++) {
        v[i] = x(first + i);
        amax = max(amax, magnitude(v[i]));
    }
    for (uint i = 0; i < 8; i++)
        packed[first + i] = block_bytes(v[i], amax);
    packed[M * (push.width / 4) + row * n_blocks + block] = block_scale(amax);
}
