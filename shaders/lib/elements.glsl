// SPDX-License-Identifier: Apache-2.0
#ifndef ELEMENTS_GLSL
#define ELEMENTS_GLSL

// Declares the matrix of kernels that read the matrix element by element, with weight().

#include "lib/access.glsl"

IN_U4(0, w)

const bool is_aligned = false;

uvec4 texel(bool second, uint i)
{
    return w(i);
}

#include "lib/weight.glsl"

#endif
