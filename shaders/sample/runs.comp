// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Computes the largest value of each run of a row of logits, and the sum of e^(x - largest).
//
// A subgroup processes one run at a time. Workgroups: any number in x; y counts rows of logits. If a run
// contains NaN or infinity, its sum is NaN.

#include "sample/logits.glsl"

void do_run(uint row, uint run)
{
    float top = LOWEST, sum = 0;

    for (uint i = 4 * gl_SubgroupInvocationID; i < RUN; i += 4 * n_lanes()) {
        const vec4 x = logits_at(row, run * RUN + i);

        top = max(max(top, max(x.x, x.y)), max(x.z, x.w));
    }
    top = lanes_max(top);

    const float base = top == LOWEST ? 0.0 : top;

    for (uint i = 4 * gl_SubgroupInvocationID; i < RUN; i += 4 * n_lanes()) {
        const vec4 x = logits_at(row, run * RUN + i);

        for (uint j = 0; j < 4; j++)
            sum += is_nan(x[j]) ? x[j] : exp_down(x[j] - base);
    }
    sum = lanes_sum(sum);
    if (subgroupElect()) {
        runs[run_at(row, run)] = top;
        runs[run_at(row, run) + 1] = sum;
    }
}

void main()
{
    const uint row = gl_WorkGroupID.y;

    if (row >= step_n_logits() || step_n_top() == 0)
        return;
    for (uint run = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID; run < n_runs();
         run += gl_NumWorkGroups.x * gl_NumSubgroups)
        do_run(row, run);
}
