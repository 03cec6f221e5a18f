// SPDX-License-Identifier: Apache-2.0
#ifndef FOLD_GLSL
#define FOLD_GLSL

// Merging the attention results of a query for two parts of its context
//
// The result for a part is the largest score, the sum of e^(score - largest), and the sum of the values
// with these weights. A context is cut into parts at multiples of push.part_tokens. All kernels merge
// the parts in order, so that the results have the same bits.

#include "lib/math.glsl"

#define NOTHING uintBitsToFloat(0xff800000u)

// The largest score, which is subtracted; any number is valid while no token was seen.
float fold_base(float top)
{
    return top == NOTHING ? 0.0 : top;
}

// a × f + b × g, where f and g scale two sums to the same base: exp_down(top - fold_base(both)).
float fold_sum(float a, float f, float b, float g)
{
    precise float x = a * f;
    precise float y = b * g;
    precise float z = x + y;

    return z;
}

#endif
