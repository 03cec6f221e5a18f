// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Computes y = x × factor; with COLUMNS, y = x × b, where b has a factor for each column.

#include "lib/elem.glsl"

layout(constant_id = 3) const bool COLUMNS = false;

vec4 scaled4(uint i)
{
    return x4(i) * (COLUMNS ? b4(i % (push.period / 4)) : vec4(push.factor));
}

float scaled1(uint i)
{
    return x1[i] * (COLUMNS ? b1[i % push.period] : push.factor);
}

ELEM_MAIN(row, scaled4, scaled1)
