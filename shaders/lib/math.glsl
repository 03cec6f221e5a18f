// SPDX-License-Identifier: Apache-2.0
#ifndef MATH_GLSL
#define MATH_GLSL

// Defines math functions whose error does not depend on the driver.
//
// In Vulkan exp() may have an error of about 3 + 2|x| units in the last place, and compilers may assume
// that there is no NaN. The exponentials of this file have an error of at most 1 unit, and preserve NaN.

bool is_nan(float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

bool is_finite(float x)
{
    return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u;
}

// Returns 2^n for n = -126 … 127.
float power_of_2(int n)
{
    return uintBitsToFloat(uint(n + 127) << 23);
}

// Returns e^r for |r| ≤ ln 2 / 2, from a minimax polynomial with a relative error of 3e-9 before rounding.
float exp_reduced(float r)
{
    float p = 1.3814467e-3;

    p = fma(p, r, 8.368781e-3);
    p = fma(p, r, 4.1668393e-2);
    p = fma(p, r, 0.1666652);
    p = fma(p, r, 0.49999994);
    return fma(p, r * r, r) + 1.0;
}

// Returns x - n × ln 2. The constant is split into two parts, the first of which has so few digits that its
// product with n is exact. Compilers must not add up the two parts of ln 2. Therefore the computation is
// declared precise, and does not use fma(), to which precise does not always apply.
float exp_remainder(float x, float n)
{
    precise float r = x - n * 0.693359375;

    r = r + n * 2.1219444e-4;
    return r;
}

// Returns e^x for x ≤ 0, including -infinity. Results below the normal range are 0. NaN is preserved.
float exp_down(float x)
{
    const float n = max(round(x * 1.44269504), -126.0);
    const float y = exp_reduced(exp_remainder(x, n)) * power_of_2(int(n));

    return x < -87.33 ? 0.0 : y;
}

// Returns e^x for any x.
float exp_any(float x)
{
    const float n = clamp(round(x * 1.44269504), -126.0, 128.0);
    const int half_n = int(n) >> 1;
    const float y = exp_reduced(exp_remainder(x, n)) * power_of_2(half_n) *
                    power_of_2(int(n) - half_n);

    return x < -87.33 ? 0.0 : x > 88.8 ? uintBitsToFloat(0x7f800000u) : y;
}

// Returns tanh x with a relative error of a few units. Near zero, where 1 - 2 / (e^2x + 1) would lose digits, the
// result is the Taylor polynomial.
float tanh_any(float x)
{
    const float a = abs(x), z = x * x;
    const float large = 1.0 - 2.0 / (exp_any(2.0 * a) + 1.0);
    float p = 0.021869488;

    p = fma(p, z, -0.053968254);
    p = fma(p, z, 0.13333333);
    p = fma(p, z, -0.33333333);
    return a < 0.25 ? fma(p * z, x, x) : x < 0.0 ? -large : large;
}

// Returns ln(1 + e^x). With u = e^-|x| and z = u / (2 + u), ln(1 + u) is 2 (z + z³/3 + z⁵/5 + …).
float softplus(float x)
{
    const float u = exp_down(-abs(x)), z = u / (2.0 + u), w = z * z;
    float p = 0.058823529;

    p = fma(p, w, 0.066666667);
    p = fma(p, w, 0.076923077);
    p = fma(p, w, 0.090909091);
    p = fma(p, w, 0.11111111);
    p = fma(p, w, 0.14285714);
    p = fma(p, w, 0.2);
    p = fma(p, w, 0.33333333);
    p = 2.0 * fma(p * w, z, z);
    return x > 0.0 ? x + p : p;
}

#endif
