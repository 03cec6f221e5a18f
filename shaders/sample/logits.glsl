// SPDX-License-Identifier: Apache-2.0
#ifndef LOGITS_GLSL
#define LOGITS_GLSL

// Reads rows of logits in runs of 256.
//
// For each run, sample/runs stores a pair: the largest value and the sum of e^(x - largest). From these pairs
// sample/tops makes lists. Slots: 2 logits; 4 runs, the pairs: [row][run][2].

#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool WHOLE = true; // width is a multiple of 4

const uint RUN = 256;

#define LOWEST uintBitsToFloat(0xff800000u)

IN_F4(2, x4)
IN_F32(2, x1)
INOUT_F32(4, runs)
PUSH(push_tops)

uint n_runs()
{
    return (push.width + RUN - 1) / RUN;
}

// Returns the offset of the pair of a run.
uint run_at(uint row, uint run)
{
    return 2 * (row * n_runs() + run);
}

// Returns logits @i … @i + 3; -infinity after the end of the row.
vec4 logits_at(uint row, uint i)
{
    const uint at = row * push.width + i;

    if (WHOLE)
        return i < push.width ? x4(at / 4) : vec4(LOWEST);
    return vec4(i < push.width ? x1[at] : LOWEST, i + 1 < push.width ? x1[at + 1] : LOWEST,
                i + 2 < push.width ? x1[at + 2] : LOWEST, i + 3 < push.width ? x1[at + 3] : LOWEST);
}

// Returns the number of active lanes of a subgroup.
uint n_lanes()
{
    return min(gl_SubgroupSize, gl_WorkGroupSize.x);
}

#endif
