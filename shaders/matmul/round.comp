// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Rounds rows of x to int8, in steps of 1/127 of the largest magnitude of the row, for products with
// ternary weights.
//
// The rounding is that of BitNet b1.58 (transformers, integrations/bitnet.py), with the results of
// libinfer/backend/cpu/matmul/matmul-bitnet.h: a row with NaN or infinity becomes NaN. Depending on the
// kernel of the product, the result is floats; or int8 in the form of matmul/quantise, with the same scale
// for all blocks; or binary16 in the form of matmul/halve. `width` is a multiple of 4. A workgroup rounds
// one row; workgroups: y counts rows.

#include "lib/access.glsl"
#include "lib/half.glsl"
#include "lib/push.glsl"
#include "lib/reduce.glsl"
#include "lib/step.glsl"
#include "matmul/bytes.glsl"

#define FORM_F32 0
#define FORM_Q8 1
#define FORM_F16 2

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint form = FORM_F32;

PUSH(push_pack)

IN_F4(2, x)
OUT_U32(3, packed)

// Writes quad @i of row @row, which consists of the whole numbers @q.
void put(uint row, uint i, vec4 q, float d)
{
    const uint n_quads = push.width / 4, pitch = (push.width + 31) / 32 * 16;

    if (form == FORM_Q8) {
        const ivec4 n = ivec4(q);

        packed[row * n_quads + i] = (n.x & 255) | (n.y & 255) << 8 | (n.z & 255) << 16 | n.w << 24;
    } else if (form == FORM_F16) {
        packed[row * pitch + 2 * i] = f16_pair(q.xy);
        packed[row * pitch + 2 * i + 1] = f16_pair(q.zw);
    } else {
        for (uint j = 0; j < 4; j++)
            packed[row * push.width + 4 * i + j] = floatBitsToUint(q[j] * d);
    }
}

void main()
{
    const uint M = step_rows(push.rows_kept) * push.slots, row = gl_WorkGroupID.y;
    const uint n_quads = push.width / 4, padded = (push.width + 31) / 32 * 8;

    if (row >= M)
        return;
    float amax = 0;

    for (uint i = gl_LocalInvocationIndex; i < n_quads; i += gl_WorkGroupSize.x)
        amax = max(amax, magnitude(x(row * n_quads + i)));
    amax = team_max(amax);

    const bool is_bad = !is_finite(amax);
    const float most = max(amax, 1e-5), inverse = 127.0 / most;
    const float d = is_bad ? uintBitsToFloat(NAN_BITS) : most / 127.0;

    for (uint i = gl_LocalInvocationIndex; i < (form == FORM_F16 ? padded : n_quads);
         i += gl_WorkGroupSize.x) {
        vec4 q = vec4(0);

        if (i < n_quads && !is_bad)
            q = roundEven(x(row * n_quads + i) * inverse);
        put(row, i, q, d);
    }
    if (form == FORM_Q8)
        for (uint i = gl_LocalInvocationIndex; i < push.width / 32; i += gl_WorkGroupSize.x)
            packed[M * n_quads + row * (push.width / 32) + i] = floatBitsToUint(d);
    if (form == FORM_F16 && gl_LocalInvocationIndex == 0)
        packed[M * padded * 2 + row] = floatBitsToUint(d);
}
