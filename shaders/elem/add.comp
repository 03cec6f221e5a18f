// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = x + b.

#include "lib/elem.glsl"

vec4 sum4(uint i)
{
    return x4(i) + b4(i);
}

float sum1(uint i)
{
    return x1[i] + b1[i];
}

ELEM_MAIN(row, sum4, sum1)
