// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// The largest logits of each row, from the output of sample/runs; of equal logits the lower index is first
//
// A list is the number of its values, log Σ e^(x - largest), and pairs of index and value. It has as many
// pairs as the step requests; fewer if there are not so many above -infinity; none if the row has NaN or
// its largest value is infinite.
//
// A subgroup processes one row. Each lane keeps the best value of its runs. The best value of all is searched
// in its run, whose best value is then the next one in the order. All values before the last output value in
// the order have been output, so that value determines which ones are left.
//
// Workgroups (rows of logits). Slot 3: lists.

#include "sample/logits.glsl"

OUT_U32(3, lists)

uint row, lane, lanes;
float last = -LOWEST; // the last output value, and its index
uint last_id = 0;
float best; // best value of the lane's runs
uint best_run;

// Whether a value comes after the last output value in the order.
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

// The sum over all runs, based on the largest value.
float sum_runs(float top)
{
    float sum = 0;

    for (uint run = lane; run < n_runs(); run += lanes) {
        const float x = runs[run_at(row, run)], s = runs[run_at(row, run) + 1];

        sum += is_nan(s) ? s : s * exp_down(x - top);
    }
    return lanes_sum(sum);
}

// Finds @value in its run, and the best value that is then left in the run.
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

// log(x) for x ≥ 1, independent of the driver's precision: one step of Newton's method from the driver's result.
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
