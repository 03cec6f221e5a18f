// SPDX-License-Identifier: Apache-2.0
#ifndef PRODUCT_GLSL
#define PRODUCT_GLSL

// Declares what all kernels of matrix products but the reference share: their slots, the format of the weights, and
// the output of a sum.

#include "lib/access.glsl"
#include "lib/act.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

// True for a gated unit: two matrices and an activation
layout(constant_id = 3) const bool is_glu = false;
// True if rows of w start at multiples of 16 bytes
layout(constant_id = 4) const bool is_aligned = false;

PUSH(push_matmul)

IN_U4(0, w)
IN_U4(1, w2)
OUT_F32(3, y)
IN_F32(4, bias)
IN_F32(5, add)

#include "experts/rows.glsl"

uvec4 texel(bool second, uint i)
{
    if (second)
        return w2(i);
    return w(i);
}

#include "lib/weight.glsl"

// Returns the byte offset of row @n of a matrix.
uint row_at(bool second, uint n)
{
    return rows_matrix(second) +
           (second ? push.w2_offset + n * push.row_bytes2 : push.w_offset + n * push.row_bytes);
}

// Writes column @n, counted from push.n0, of row @m of y. @sum2 is the sum for the second matrix.
void finish(uint m, uint n, float sum, float sum2)
{
    const uint column = push.n0 + n, at = m * push.ld_y + column;
    precise float value = sum;

#ifdef HAS_FACTOR
    value *= push.factor;
    sum2 *= push.factor2;
#endif
    if (is_glu)
        value = act_gated(push.act, value, sum2);
    if (push.has_bias != 0)
        value += bias[rows_bias() + column];
    if (push.has_add != 0)
        value += add[at];
    y[at] = value;
}

#endif
