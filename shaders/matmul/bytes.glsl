// SPDX-License-Identifier: Apache-2.0
#ifndef BYTES_GLSL
#define BYTES_GLSL

// Defines the scales of blocks of 32 int8, to which x is converted for matmul/vecdot.
//
// The result is the same as on the CPU (libinfer/backend/cpu/matmul/matmul-ref.c): x ≈ d × q with
// d = amax / 127, where amax is the largest magnitude of the block. Blocks with NaN or infinity get d = NaN;
// blocks whose amax is below 2^-100 become zero. In memory, all words of q come first, row by row, then all
// scales.

#include "lib/math.glsl"

const uint NAN_BITS = 0x7fc00000u;
#define INFINITE uintBitsToFloat(0x7f800000u)

// Returns the largest magnitude, or infinity if @v contains NaN or infinity.
float magnitude(vec4 v)
{
    const vec4 a = abs(v);

    return is_finite(a.x) && is_finite(a.y) && is_finite(a.z) && is_finite(a.w)
               ? max(max(a.x, a.y), max(a.z, a.w))
               : INFINITE;
}

// Returns the four bytes of @v in a block of the magnitude @amax.
uint block_bytes(vec4 v, float amax)
{
    if (!is_finite(amax) || amax < 7.888609052e-31)
        return 0;
    const ivec4 q = ivec4(roundEven(v * (127.0 / amax)));

    return (q.x & 255) | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24;
}

// Returns the bits of the scale of a block of the magnitude @amax.
uint block_scale(float amax)
{
    return !is_finite(amax) ? NAN_BITS
                            : floatBitsToUint(amax < 7.888609052e-31 ? 0.0 : amax / 127.0);
}

#endif
