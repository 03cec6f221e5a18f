// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Lists the largest logits of each row in descending order, from the output of sample/runs. If logits are equal,
// the one with the lower index comes first.
//
// A list contains the number of its pairs, log Σ e^(x - largest), and pairs of index and value. It has as many
// pairs as the step requests; fewer if the row has fewer logits above -infinity; none if the row has NaN or
// its largest value is infinite.
//
// A subgroup processes one row. Each lane has some of the runs, and keeps their best value. The best value of
// all lanes is output, after its index was found in its run. Then the next value of this run becomes the run's
// best value. All values before the last output value in the order have been output, so the last output value
// determines which values are left.
//
// Workgroups: x counts rows of logits. Slot 3: lists.

#include "sample/logits.glsl"

OUT_U32(3, lists)

uint row, lane, lanes;
float last = -LOWEST; // the last output value, and its index
uint last_id = 0;
float best; // best value of the lane's runs
uint best_run;

// Returns whether a value comes after the last output value in the order.
bool is_left(float x, uint id)
{
    return x < last || (x == last && id > last_id);
}

void find_best()
{
    best = LOWEST;
    best_run = ~0u;
    for (uint run = lane; run < n_runs(); run += lanes) {
        const float x = runs[run_at(row, run)];

        best_run = x > best ? run : best_run;
        best = max(best, x);
    }
}

// Returns the sum of e^(x - @top) over all runs; @top is the largest value of the row.
float sum_runs(float top)
{
    float sum = 0;

    for (uint run = lane; run < n_runs(); run += lanes) {
        const float x = runs[run_at(row, run)], s = runs[run_at(row, run) + 1];

        sum += is_nan(s) ? s : s * exp_down(x - top);
    }
    return lanes_sum(sum);
}

// Finds the index of @value in its run, and stores the best value that is left in this run.
void take(float value, uint run)
{
    uint id = ~0u, n = 0;
    float next = LOWEST;

    for (uint i = 4 * lane; i < RUN; i += 4 * lanes) {
        const uint at = run * RUN + i;
        const vec4 x = logits_at(row, at);

        for (uint j = 0; j < 4; j++) {
            const bool same = x[j] == value && is_left(x[j], at + j);

            n += same ? 1 : 0;
            id = same ? min(id, at + j) : id;
            next = x[j] < value ? max(next, x[j]) : next;
        }
    }
    last = value;
    last_id = lanes_min(id);
    n = lanes_sum(n);
    next = lanes_max(next);
    if (run % lanes == lane) {
        runs[run_at(row, run)] = n > 1 ? value : next;
        find_best();
    }
}

// Returns log(x) for x ≥ 1. One step of Newton's method makes the precision of the driver's log() irrelevant.
float log_of(float x)
{
    const float y = log(x);

    return y + (x * exp_any(-y) - 1.0);
}

void main()
{
    row = gl_WorkGroupID.x;
    lane = gl_SubgroupInvocationID;
    lanes = n_lanes();
    if (row >= step_n_logits() || step_n_top() == 0 || gl_SubgroupID > 0)
        return;
    find_best();

    const float top = lanes_max(best), sum = sum_runs(top);
    const uint to = row * push.stride;
    uint n = is_finite(sum) && is_finite(top) ? step_n_top() : 0, i = 0;

    for (; i < n; i++) {
        const float value = lanes_max(best);

        if (value == LOWEST)
            break;
        take(value, lanes_min(best == value ? best_run : ~0u));
        if (lane == 0) {
            lists[to + 2 + 2 * i] = last_id;
            lists[to + 3 + 2 * i] = floatBitsToUint(last);
        }
    }
    if (lane == 0) {
        lists[to] = i;
        lists[to + 1] = floatBitsToUint(log_of(sum));
    }
}
