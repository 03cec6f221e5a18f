/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes exp and tanh of a vector with the operations of a simd-<isa>.h that must be included
 * before this file.
 *
 * x is split into n ln 2 + r with |r| ≤ ln 2 / 2. exp(r) is computed by the Taylor polynomial of
 * degree 7, whose error is below 6e-9 for these r, and is multiplied by 2^n, which is exact. The
 * error of the result is below 1.5 ulp if the result is a normal number. The result is 0 below -104
 * and infinite above 88.73; NaN stays NaN.
 */

static inline vf vf_exp(vf x)
{
    const vf hi = vf_set1(89.0f), lo = vf_set1(-104.0f);
    vf n, r, p;

    x = vf_min(hi, vf_max(lo, x));
    n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    r = vf_fma(n, vf_set1(-0.693359375f), x); /* ln 2 in two parts (Cody and Waite) */
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    p = vf_fma(r, vf_set1(1.0f / 5040), vf_set1(1.0f / 720));
    p = vf_fma(p, r, vf_set1(1.0f / 120));
    p = vf_fma(p, r, vf_set1(1.0f / 24));
    p = vf_fma(p, r, vf_set1(1.0f / 6));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, r, vf_set1(1.0f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_scale2(p, n);
}

/*
 * Computes tanh(x) as e / (e + 2), where e = exp(2x) - 1. As in vf_exp(), 2x = n ln 2 + r. With the
 * polynomial p(r) = exp(r) - 1, e is 2^n p(r) + (2^n - 1). This keeps the relative precision of e
 * near 0. NaN stays NaN.
 */
static inline vf vf_tanh(vf x)
{
    const vf hi = vf_set1(40.0f), lo = vf_set1(-40.0f), one = vf_set1(1);
    vf n, r, p, power, e;

    x = vf_min(hi, vf_max(lo, vf_add(x, x)));
    n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    r = vf_fma(n, vf_set1(-0.693359375f), x);
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    p = vf_fma(r, vf_set1(1.0f / 5040), vf_set1(1.0f / 720));
    p = vf_fma(p, r, vf_set1(1.0f / 120));
    p = vf_fma(p, r, vf_set1(1.0f / 24));
    p = vf_fma(p, r, vf_set1(1.0f / 6));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_mul(vf_fma(p, r, one), r);
    power = vf_scale2(one, n);
    e = vf_fma(power, p, vf_sub(power, one));
    return vf_div(e, vf_add(e, vf_set1(2)));
}
