// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// Computes y[m][n] = sum over k of x[m][k] · w[n][k]: the reference kernel.
//
// Tests compare the other kernels with this one. It is also used where no other kernel can be used. An
// invocation computes one element; workgroups: x counts columns, y rows.

#include "lib/access.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_matmul)

IN_F32(2, x)
OUT_F32(3, y)
IN_F32(4, bias)
IN_F32(5, add)

#include "experts/rows.glsl"
#include "lib/elements.glsl"

void main()
{
    const uint n = gl_GlobalInvocationID.x, m = gl_WorkGroupID.y;
    if (n >= push.N || m >= rows_of_y() || !rows_begin(m))
        return;

    const uint at = rows_matrix(false) + push.w_offset + n * push.row_bytes, to = m * push.ld_y + push.n0 + n;
    float sum = 0;

    for (uint k = 0; k < push.K; k++)
        sum = fma(x[rows_from(m) * push.K + k], weight(at, k), sum);
#ifdef HAS_FACTOR
    sum *= push.factor;
#endif
    if (push.has_bias != 0)
        sum += bias[rows_bias() + push.n0 + n];
    if (push.has_add != 0)
        sum += add[to];
    y[to] = sum;
}
