// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = c × tanh(x / c); c is push.factor.

#include "lib/math.glsl"
#include "lib/elem.glsl"

float capped(float x)
{
    return push.factor * tanh_any(x / push.factor);
}

float capped1(uint i)
{
    return capped(x1[i]);
}

vec4 capped4(uint i)
{
    const vec4 x = x4(i);

    return vec4(capped(x.x), capped(x.y), capped(x.z), capped(x.w));
}

ELEM_MAIN(row, capped4, capped1)
