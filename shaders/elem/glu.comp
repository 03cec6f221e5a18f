// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = act(x) × b, where x is the gate of a gated unit.

#include "lib/act.glsl"
#include "lib/elem.glsl"

layout(constant_id = 3) const uint ACT = ACT_SILU;

float gated1(uint i)
{
    return act_apply(ACT, x1[i]) * b1[i];
}

vec4 gated4(uint i)
{
    const vec4 x = x4(i);

    return vec4(act_apply(ACT, x.x), act_apply(ACT, x.y), act_apply(ACT, x.z),
                act_apply(ACT, x.w)) *
           b4(i);
}

ELEM_MAIN(row, gated4, gated1)
