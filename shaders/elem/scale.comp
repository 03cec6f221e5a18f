// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = x × factor.

#include "lib/elem.glsl"

vec4 scaled4(uint i)
{
    return x4(i) * push.factor;
}

float scaled1(uint i)
{
    return x1[i] * push.factor;
}

ELEM_MAIN(row, scaled4, scaled1)
