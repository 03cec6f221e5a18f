// SPDX-License-Identifier: Apache-2.0
#version 460
#extension GL_GOOGLE_include_directive : require

// Converts rows of x to blocks of 32 int8 with a scale, for matmul/vecdot.
//
// The result is the same as on the CPU (libinfer/backend/cpu/matmul/matmul-ref.c): x ≈ d × q with
// d = amax / 127, where amax is the largest magnitude of the block. All words of q come first, row by row,
// then all scales. Blocks with NaN or infinity get d = NaN; blocks whose amax is below 2^-100 become zero. An
// invocation converts one block; workgroups: x counts the blocks of a row, y rows.

#include "lib/access.glsl"
#include "lib/math.glsl"
#include "lib/push.glsl"
#include "lib/step.glsl"

layout(local_size_x_id = 0) in;

PUSH(push_pack)

IN_F4(2, x)
OUT_U32(3, packed)

const uint NAN_BITS = 0x7fc00000u;

uint pack_bytes(vec4 v)
{
    const ivec4 q = ivec4(roundEven(v));

    return (q.x & 255) | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24;
}

void main()
{
    const uint M = step_rows(push.rows_kept), row = gl_WorkGroupID.y;
    const uint block = gl_GlobalInvocationID.x, n_blocks = push.width / 32;
    if (row >= M || block >= n_blocks)
        return;
    const uint first = row * (push.width / 4) + 8 * block;
    vec4 v[8];
    float amax = 0;
    bool finite = true;

    for (uint i = 0; i < 8; i++) {
        v[i] = x(first + i);
        const vec4 a = abs(v[i]);

        finite = finite && is_finite(a.x) && is_finite(a.y) && is_finite(a.z) && is_finite(a.w);
        amax = max(amax, max(max(a.x, a.y), max(a.z, a.w)));
    }

    const bool counts = finite && amax >= 7.888609052e-31;
    const float inverse = counts ? 127.0 / amax : 0.0;

    for (uint i = 0; i < 8; i++)
        packed[first + i] = counts ? pack_bytes(v[i] * inverse) : 0;
    packed[M * (push.width / 4) + row * n_blocks + block] =
        finite ? floatBitsToUint(counts ? amax / 127.0 : 0.0) : NAN_BITS;
}
