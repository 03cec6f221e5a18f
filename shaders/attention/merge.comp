// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Merges the results for the parts of a context, in order, for tiles of one row.
//
// An invocation computes one element of one head; workgroups: x counts the elements of all heads, y counts
// tiles. Slots: 3 y; 4 parts, [tile][head][part], each with head_dim weighted sums, the largest score and the
// sum of weights; 5 sinks.

#include "attention/fold.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const bool LONE_PARTS = true; // the result for a context of one part is stored too

OUT_F32(3, y)
IN_F32(4, parts)
IN_F32(5, sinks)
PUSH(push_attention)

void main()
{
    const uint column = gl_GlobalInvocationID.x;

    if (gl_WorkGroupID.y >= step_n_tiles(push.group) || column >= push.n_heads * HEAD_DIM)
        return;

    const uvec4 tile = step_tile(push.group, gl_WorkGroupID.y);

    if (tile.y > 1)
        return;

    const uint pos = tile.w, d = column % HEAD_DIM;
    const uint oldest = push.window == 0 || pos < push.window ? 0 : pos - push.window + 1;

    if (!LONE_PARTS && oldest / push.part_tokens == pos / push.part_tokens)
        return;

    const uint from = (gl_WorkGroupID.y * push.n_heads + column / HEAD_DIM) * push.n_parts;
    float all = 0, top = NOTHING, sum = 0;

    if (push.has_sinks != 0) {
        top = sinks[column / HEAD_DIM];
        sum = 1.0;
    }

    for (uint part = oldest / push.part_tokens; part * push.part_tokens <= pos; part++) {
        const uint at = (from + part) * (HEAD_DIM + 2);
        const float part_top = parts[at + HEAD_DIM], both = max(top, part_top);
        const float base = fold_base(both);
        const float f = exp_down(top - base), g = exp_down(part_top - base);

        all = fold_sum(all, f, parts[at + d], g);
        sum = fold_sum(sum, f, parts[at + HEAD_DIM + 1], g);
        top = both;
    }
    y[tile.x * push.y_ld + column] = all / sum;
}
