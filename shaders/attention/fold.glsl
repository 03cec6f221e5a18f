// SPDX-License-Identifier: Apache-2.0
#ifndef FOLD_GLSL
#define FOLD_GLSL

// Merges the attention results of a query for two parts of its context.
//
// The result for a part consists of the largest score, the sum of the weights e^(score - largest), and the
// sum of the values with these weights. A context is cut into parts at multiples of push.part_tokens.
// attention/lanes and attention/merge both merge the parts in order, so that their results have the same bits.

#include "lib/math.glsl"

#define NOTHING uintBitsToFloat(0xff800000u)

// Returns the number to subtract from scores: the largest score, or 0 while no token was seen.
float fold_base(float top)
{
    return top == NOTHING ? 0.0 : top;
}

// Returns a × f + b × g, where f and g scale the two sums to the same base. Each factor is
// exp_down(top - fold_base(largest top)).
float fold_sum(float a, float f, float b, float g)
{
    precise float x = a * f;
    precise float y = b * g;
    precise float z = x + y;

    return z;
}

// Returns c × tanh(s / c), or s if there is no limit c.
float fold_capped(float s, float c)
{
    if (c > 0.0)
        return c * tanh_any(s / c);
    return s;
}

#endif
