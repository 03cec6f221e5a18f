// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Prepares rows for products (struct turn_params of libinfer/graph/params.h): columns get another order and factors,
// and are rotated in pairs.
//
// A workgroup computes a group of columns of one row: x counts groups, y rows. If rows have slots
// (push.slots > 1), each slot is a row here. Rotations are done in rounds. Each column is in
// exactly one pair of each round, so the pairs of a round are computed side by side.

#include "lib/access.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool HAS_FACTORS = false;
layout(constant_id = 3) const bool HAS_ORDER = false;

PUSH(push_turn)

IN_U32(0, pairs)
IN_F32(1, turns)
IN_F32(2, x)
OUT_F32(3, y)
IN_F32(4, factors)
IN_U32(5, order)

shared float columns[256];

void rotate(uint pair, float c, float s)
{
    const uint i = pair & 0xffff, j = pair >> 16;
    const float a = columns[i], b = columns[j];

    columns[i] = a * c + b * s;
    columns[j] = b * c - a * s;
}

void main()
{
    const uint row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * push.group;
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;

    if (row >= step_rows(push.rows_kept) * push.slots)
        return;
    for (uint k = lane; k < push.group; k += lanes) {
        const float v = x[row * push.width + (HAS_ORDER ? order[first + k] : first + k)];

        columns[k] = HAS_FACTORS ? v * factors[first + k] : v;
    }
    for (uint i = 0; i < push.n_rounds; i++) {
        barrier();
        for (uint k = lane; k < push.group / 2; k += lanes) {
            const uint at = (i * push.width + first) / 2 + k;

            rotate(pairs[at], turns[2 * at], turns[2 * at + 1]);
        }
    }
    barrier();
    for (uint k = lane; k < push.group; k += lanes)
        y[row * push.width + first + k] = columns[k];
}
