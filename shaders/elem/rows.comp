// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Copies the rows of x whose logits are requested: row i of y is the row of x for row i of the logits.

#include "lib/elem.glsl"

vec4 kept4(uint i)
{
    return x4(i);
}

float kept1(uint i)
{
    return x1[i];
}

ELEM_MAIN(step_logit_row(row), kept4, kept1)
