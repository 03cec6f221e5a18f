// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Selects the experts of each row (struct route_params in libinfer/graph/params.h).
//
// The key of an expert is its score, or with a bias the sum of its weight and its bias. The experts of a row are
// ordered by their keys, from the largest down, and then by number. A workgroup, which is one subgroup, finds the
// first n_used experts in this order, one after the other. It remembers only the last one that it found: the
// experts up to this one in the order are those that it has selected. The result of a row has the weights of the
// selected experts as floats, then their numbers as uints. A key that is NaN counts as -infinity, so that the
// experts are valid for all scores. Workgroups: y counts rows. Slots: 0 bias, 2 scores, 5 factors, 3 y.

#include "lib/access.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"

const uint SOFTMAX = 0, SOFTMAX_SELECTED = 1, SIGMOID = 2;
const uint NO_EXPERT = 0xffffffffu;
#define LEAST uintBitsToFloat(0xff800000u)

layout(local_size_x_id = 0) in;

IN_F32(0, bias)
IN_F32(2, x)
IN_F32(5, factors)
OUT_F32(3, y)
OUT_U32(3, y_experts)
PUSH(push_route)

uint from;          // the first score of the row
float top, sum;     // the largest score, and the sum of e^(score - top)
float last_key;     // the last selected expert
uint last;

// Returns the weight of a score before the weights are normalized.
float weight_of(float score)
{
    if (push.score == SIGMOID)
        return 1.0 / (1.0 + exp_any(-score));
    return exp_down(score - top) / sum;
}

float key_of(uint i)
{
    precise float key = x[from + i];

    if (push.has_bias != 0)
        key = weight_of(key) + bias[i];
    return is_nan(key) ? LEAST : key;
}

bool is_selected(uint i)
{
    const float key = key_of(i);

    return key > last_key || (key == last_key && i <= last);
}

// Sets `top` and `sum` for all experts, or only for the selected ones.
void find_sum(bool all)
{
    float most = LEAST, total = 0;

    for (uint i = gl_LocalInvocationIndex; i < push.n_experts; i += gl_SubgroupSize)
        if (all || is_selected(i))
            most = max(most, x[from + i]);
    most = lanes_max(most);
    for (uint i = gl_LocalInvocationIndex; i < push.n_experts; i += gl_SubgroupSize)
        if (all || is_selected(i))
            total += exp_down(x[from + i] - most);
    total = lanes_sum(total);
    top = most;
    sum = total;
}

// Sets `last` to the next expert in the order.
void find_next(bool is_first)
{
    float best = LEAST;
    uint found = NO_EXPERT;

    for (uint i = gl_LocalInvocationIndex; i < push.n_experts; i += gl_SubgroupSize) {
        const float key = key_of(i);
        const bool comes = is_first || key < last_key || (key == last_key && i > last);

        if (comes && (found == NO_EXPERT || key > best)) {
            best = key;
            found = i;
        }
    }

    const float most = lanes_max(best);

    last = lanes_min(found != NO_EXPERT && best == most ? found : NO_EXPERT);
    last_key = most;
}

// Returns the number of selected experts before expert @i.
uint slot_of(uint i)
{
    uint n = 0;

    for (uint j = 0; j < i; j++)
        n += is_selected(j) ? 1 : 0;
    return n;
}

void main()
{
    const uint row = gl_WorkGroupID.y, n_used = push.n_used, to = 2 * row * n_used;
    // With a bias, the softmax is over all experts, so the weights of the selected experts must be divided by
    // their sum.
    const bool is_normalized =
        push.normalized != 0 || (push.score == SOFTMAX_SELECTED && push.has_bias != 0);
    float total = 0;

    if (row >= step_rows(push.rows_kept))
        return;
    from = row * push.n_experts;
    if (push.score == SOFTMAX || push.has_bias != 0)
        find_sum(true);
    for (uint i = 0; i < n_used; i++)
        find_next(i == 0);
    if (push.score == SOFTMAX_SELECTED && push.has_bias == 0)
        find_sum(false);
    for (uint i = gl_LocalInvocationIndex; i < push.n_experts; i += gl_SubgroupSize)
        if (is_selected(i))
            total += weight_of(x[from + i]);
    total = lanes_sum(total);
    for (uint i = gl_LocalInvocationIndex; i < push.n_experts; i += gl_SubgroupSize) {
        if (!is_selected(i))
            continue;

        const uint slot = slot_of(i);
        const float w = weight_of(x[from + i]) * push.scale;

        const float weight = is_normalized ? w / total : w;

        y[to + slot] = push.has_factors != 0 ? weight * factors[i] : weight;
        y_experts[to + n_used + slot] = i;
    }
}
