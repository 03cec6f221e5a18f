/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines kernels on single rows with the vector operations of a simd-<isa>.h, which must be
 * included before this file.
 *
 * The order of additions depends only on the length of the row. There is no include guard: each
 * file of an instruction set includes this file once and names the table.
 */

#include "backend/cpu/elem/elem.h"

#include <math.h>

#include "backend/cpu/simd/simd-exp.h"
#include "core/half.h"

/* Loops over n elements: full vectors (k = VF_N) first, then the rest. */
#define FOR_VECTORS(i, k, n)                                                                       \
    for (uint32_t i = 0, k; i < (n) && (k = (n)-i < VF_N ? (n)-i : VF_N); i += VF_N)

#include "backend/cpu/elem/elem-norm-simd.h"
#include "backend/cpu/elem/elem-turn-simd.h"

static void rope_half(float *x, const float *c, const float *s, uint32_t n)
{
    const uint32_t h = n / 2;

    FOR_VECTORS(i, k, h)
    {
        const vf a = vf_load_n(x + i, k), b = vf_load_n(x + h + i, k);
        const vf ya = vf_fma(b, vf_load_n(s + i, k), vf_mul(a, vf_load_n(c + i, k)));
        const vf yb = vf_fma(a, vf_load_n(s + h + i, k), vf_mul(b, vf_load_n(c + h + i, k)));

        vf_store_n(x + i, ya, k);
        vf_store_n(x + h + i, yb, k);
    }
}

static void rope_pairs(float *x, const float *c, const float *s, uint32_t n)
{
    FOR_VECTORS(i, k, n)
    {
        const vf a = vf_load_n(x + i, k);

        vf_store_n(x + i, vf_fma(vf_swap(a), vf_load_n(s + i, k), vf_mul(a, vf_load_n(c + i, k))),
                   k);
    }
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n)
{
    const vf one = vf_set1(1), zero = vf_set1(0);

    FOR_VECTORS(i, k, n)
    {
        const vf g = vf_load_n(gate + i, k);
        const vf d = vf_add(one, vf_exp(vf_sub(zero, g)));

        vf_store_n(y + i, vf_mul(vf_div(g, d), vf_load_n(up + i, k)), k);
    }
}

/* Computes Φ(-z) for z ≥ 0 as exp(-z²/2) t P(t) with t = 1 / (1 + 0.3 z). P is a polynomial of
 * degree 7, fitted for the least relative error up to z = 14.5. This error is 1.7e-7. */
static inline vf normal_tail(vf z)
{
    const vf t = vf_div(vf_set1(1), vf_fma(z, vf_set1(0.3f), vf_set1(1)));
    vf p = vf_fma(t, vf_set1(0.0354236625f), vf_set1(-0.156158105f));

    p = vf_fma(p, t, vf_set1(0.204556093f));
    p = vf_fma(p, t, vf_set1(-0.052033294f));
    p = vf_fma(p, t, vf_set1(0.127691343f));
    p = vf_fma(p, t, vf_set1(0.100176089f));
    p = vf_fma(p, t, vf_set1(0.120712109f));
    p = vf_fma(p, t, vf_set1(0.119632006f));
    return vf_mul(vf_mul(p, t), vf_exp(vf_mul(vf_mul(z, z), vf_set1(-0.5f))));
}

/* Computes x Φ(x) as max(x, 0) - |x| Φ(-|x|), because this difference loses no precision by
 * cancellation. */
static void gelu_erf(float *y, const float *x, uint32_t n)
{
    const vf zero = vf_set1(0), far = vf_set1(14);

    FOR_VECTORS(i, k, n)
    {
        const vf a = vf_load_n(x + i, k);
        const vf size = vf_max(vf_sub(zero, a), a);
        const vf tail = vf_mul(vf_min(far, size), normal_tail(vf_min(far, size)));

        vf_store_n(y + i, vf_sub(vf_max(zero, a), tail), k);
    }
}

static void gelu_tanh(float *y, const float *x, uint32_t n)
{
    const vf one = vf_set1(1);

    FOR_VECTORS(i, k, n)
    {
        const vf a = vf_load_n(x + i, k);
        const vf cube = vf_fma(vf_mul(a, a), vf_set1(0.044715f), one);
        const vf u = vf_mul(vf_mul(a, cube), vf_set1(-1.59576912f));

        vf_store_n(y + i, vf_div(a, vf_add(one, vf_exp(u))), k);
    }
}

static void sigmoid(float *y, const float *x, uint32_t n)
{
    const vf one = vf_set1(1), zero = vf_set1(0);

    FOR_VECTORS(i, k, n)
    {
        const vf d = vf_add(one, vf_exp(vf_sub(zero, vf_load_n(x + i, k))));

        vf_store_n(y + i, vf_div(one, d), k);
    }
}

static void silu(float *y, const float *x, uint32_t n)
{
    const vf one = vf_set1(1), zero = vf_set1(0);

    FOR_VECTORS(i, k, n)
    {
        const vf a = vf_load_n(x + i, k);

        vf_store_n(y + i, vf_div(a, vf_add(one, vf_exp(vf_sub(zero, a)))), k);
    }
}

static void cap(float *y, const float *x, float c, uint32_t n)
{
    const vf v = vf_set1(c);

    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_mul(v, vf_tanh(vf_div(vf_load_n(x + i, k), v))), k);
}

static void swiglu_limited(float *y, const float *gate, const float *up, uint32_t n)
{
    const vf one = vf_set1(1), seven = vf_set1(7), low = vf_set1(-7);

    FOR_VECTORS(i, k, n)
    {
        const vf g = vf_min(seven, vf_load_n(gate + i, k));
        const vf u = vf_min(seven, vf_max(low, vf_load_n(up + i, k)));
        const vf d = vf_add(one, vf_exp(vf_mul(g, vf_set1(-1.702f))));

        vf_store_n(y + i, vf_mul(vf_div(g, d), vf_add(u, one)), k);
    }
}

static void mul(float *y, const float *a, const float *b, uint32_t n)
{
    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_mul(vf_load_n(a + i, k), vf_load_n(b + i, k)), k);
}

static void add(float *y, const float *a, const float *b, uint32_t n)
{
    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_add(vf_load_n(a + i, k), vf_load_n(b + i, k)), k);
}

static void scale(float *y, const float *a, float f, uint32_t n)
{
    const vf v = vf_set1(f);

    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_mul(vf_load_n(a + i, k), v), k);
}

static void add_scaled(float *y, const float *a, float f, uint32_t n)
{
    const vf v = vf_set1(f);

    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_fma(vf_load_n(a + i, k), v, vf_load_n(y + i, k)), k);
}

static void f16_store(uint16_t *y, const float *x, uint32_t n)
{
    FOR_VECTORS(i, k, n)
    vf_store_f16_n(y + i, vf_load_n(x + i, k), k);
}

static void bf16_store(uint16_t *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_from_f32(x[i]);
}

static void f16_load(float *y, const uint16_t *x, uint32_t n)
{
    uint32_t i = 0;

    for (; i + VF_N <= n; i += VF_N)
        vf_store(y + i, vf_load_f16(x + i));
    if (i < n)
        vf_store_n(y + i, vf_load_f16_n(x + i, n - i), n - i);
}

static void bf16_load(float *y, const uint16_t *x, uint32_t n)
{
    uint32_t i = 0;

    for (; i + VF_N <= n; i += VF_N)
        vf_store(y + i, vf_load_bf16(x + i));
    if (i < n)
        vf_store_n(y + i, vf_load_bf16_n(x + i, n - i), n - i);
}

#define ELEM_FNS(rung, flags)                                                                      \
    {                                                                                              \
        .name = rung, .cpu_flags = flags, .rms_norm = rms_norm, .rope_half = rope_half,            \
        .rope_pairs = rope_pairs, .silu_mul = silu_mul, .layer_norm = layer_norm, .level = level,  \
        .peaks = peaks, .gelu_erf = gelu_erf, .gelu_tanh = gelu_tanh, .sigmoid = sigmoid,          \
        .silu = silu, .cap = cap, .swiglu_limited = swiglu_limited, .mul = mul, .add = add,        \
        .scale = scale, .add_scaled = add_scaled, .turn = turn, .f16_store = f16_store,            \
        .bf16_store = bf16_store, .f16_load = f16_load, .bf16_load = bf16_load,                    \
    }
