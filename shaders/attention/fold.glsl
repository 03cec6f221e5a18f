// SPDX-License-Identifier: Apache-2.0
#ifndef FOLD_GLSL
#define FOLD_GLSL

// Putting together what a query found in two stretches of its context
//
// Of a stretch there is the largest score, the sum of e^(score - largest) and the sum of the
// values so weighed. A context is cut into parts at multiples of push.part_tokens; parts are
// folded in their order, whichever kernel does it, so that the bits are the same.

#include "lib/math.glsl"

#define NOTHING uintBitsToFloat(0xff800000u)

// The largest score to take off; any number does while nothing was seen.
float fold_base(float top)
{
    return top == NOTHING ? 0.0 : top;
}

// a × f + b × g, where f and g bring two sums to one base: exp_down(top - fold_base(both)).
float fold_sum(float a, float f, float b, float g)
{
    precise float x = a * f;
    precise float y = b * g;
    precise float z = x + y;

    return z;
}

#endif
