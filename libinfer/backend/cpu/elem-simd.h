/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels on single rows, in the vector operations of a simd-<isa>.h that was included before
 *
 * The order of additions depends on the length alone. No include guard: each ISA file includes
 * this once and names the table.
 */

#include "backend/cpu/elem.h"

#include <math.h>

#include "backend/cpu/simd-exp.h"
#include "core/half.h"

/* The body of a loop over n: full vectors (k = VF_N), then the rest. */
#define FOR_VECTORS(i, k, n)                                                                       \
    for (uint32_t i = 0, k; i < (n) && (k = (n)-i < VF_N ? (n)-i : VF_N); i += VF_N)

static void rms_norm(float *y, const float *x, const float *w, float eps, uint32_t n)
{
    vf sum0 = vf_set1(0), sum1 = vf_set1(0);
    uint32_t i = 0;

    for (; i + 2 * VF_N <= n; i += 2 * VF_N) {
        const vf a = vf_load(x + i), b = vf_load(x + i + VF_N);

        sum0 = vf_fma(a, a, sum0);
        sum1 = vf_fma(b, b, sum1);
    }
    for (; i < n; i += VF_N) {
        const vf a = vf_load_n(x + i, n - i < VF_N ? n - i : VF_N);

        sum0 = vf_fma(a, a, sum0);
    }

    const float scale = 1.0f / sqrtf(vf_sum(vf_add(sum0, sum1)) / (float)n + eps);
    const vf f = vf_set1(scale);

    FOR_VECTORS(j, k, n)
    vf_store_n(y + j, vf_mul(vf_mul(vf_load_n(x + j, k), f), vf_load_n(w + j, k)), k);
}

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
        .rope_pairs = rope_pairs, .silu_mul = silu_mul, .add = add, .scale = scale,                \
        .f16_store = f16_store, .bf16_store = bf16_store, .f16_load = f16_load,                    \
        .bf16_load = bf16_load,                                                                    \
    }
