// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = act(x) × b, where x is the gate of a gated unit.

#include "lib/act.glsl"
#include "lib/elem.glsl"

layout(constant_id = 3) const uint ACT = ACT_SILU;
layout(constant_id = 4) const bool ONE_GATE = false; // push.period columns share a gate

float gated1(uint i)
{
    return act_gated(ACT, x1[ONE_GATE ? i / push.period : i], b1[i]);
}

vec4 gated4(uint i)
{
    const vec4 x = ONE_GATE ? vec4(x1[4 * i / push.period]) : x4(i), u = b4(i);

    return vec4(act_gated(ACT, x.x, u.x), act_gated(ACT, x.y, u.y), act_gated(ACT, x.z, u.z),
                act_gated(ACT, x.w, u.w));
}

ELEM_MAIN(row, gated4, gated1)
