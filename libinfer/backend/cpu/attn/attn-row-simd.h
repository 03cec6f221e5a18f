/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the attention kernels that work on single rows: they prepare queries, do the softmax, and
 * merge results. Include it after attn-simd.h.
 */

#include <math.h>
#include <string.h>

#include "backend/cpu/simd/simd-exp.h"
#include "core/half.h"

static void query_float(float *q, const float *x, float scale, uint32_t head_dim)
{
    for (uint32_t d = 0; d < head_dim; d++)
        q[d] = x[d] * scale;
}

static void query_bf16(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[64];

    for (uint32_t d = 0; d < head_dim; d += 64) {
        const uint32_t n = head_dim - d < 64 ? head_dim - d : 64;

        query_float(y, x + d, scale, n);
        vf_to_bf16((uint16_t *)q + d, y, n);
    }
}

static float exp_of(float x)
{
    float y[VF_N];

    vf_store(y, vf_exp(vf_set1(x)));
    return y[0];
}

/* Returns the largest of @max and s[0 … n-1]. NaN is ignored. */
ALWAYS_INLINE float row_max(const float *s, uint32_t n, float max)
{
    const vf old = vf_set1(max);
    vf top = old;
    uint32_t i = 0;

    for (; i + VF_N <= n; i += VF_N)
        top = vf_max(vf_load(s + i), top);
    if (i > 0 && i < n) {
        top = vf_max(vf_load(s + n - VF_N), top); /* some elements for a second time */
        i = n;
    }
    if (vf_any_greater(top, old))
        max = vf_top(top);
    for (; i < n; i++)
        max = s[i] > max ? s[i] : max;
    return max;
}

static float softmax(float *s, uint32_t n, float *max, float *sum)
{
    const float old = *max;
    vf total[ATTN_LANES / VF_N], m;
    float factor = 1;
    uint32_t i = 0;

    *max = row_max(s, n, old);
    m = vf_set1(*max);
    /* exp(-∞) is 0. Computing it would be slow, because the power of two in vf_exp() would be
     * subnormal. */
    if (*max != old)
        factor = old == -INFINITY ? 0 : exp_of(old - *max);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < ATTN_LANES / VF_N; j++)
        total[j] = vf_mul(vf_load(sum + j * VF_N), vf_set1(factor));

    for (; i + ATTN_LANES <= n; i += ATTN_LANES) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < ATTN_LANES / VF_N; j++) {
            const vf e = vf_exp(vf_sub(vf_load(s + i + j * VF_N), m));

            vf_store(s + i + j * VF_N, e);
            total[j] = vf_add(total[j], e);
        }
    }
#pragma GCC unroll 4
    for (uint32_t j = 0; j < ATTN_LANES / VF_N; j++) {
        const uint32_t at = i + j * VF_N, rest = at >= n ? 0 : n - at < VF_N ? n - at : VF_N;

        if (rest > 0) {
            /* Elements beyond the row must add 0 to the sum, not exp(-max). */
            vf_store_n(s + at, vf_exp(vf_sub(vf_load_n(s + at, rest), m)), rest);
            total[j] = vf_add(total[j], vf_load_n(s + at, rest));
        }
        vf_store(sum + j * VF_N, total[j]);
    }
    return factor;
}

static void merge(float *o, const float *p, float a, float b, uint32_t n)
{
    const vf va = vf_set1(a), vb = vf_set1(b);

    for (uint32_t i = 0; i < n; i += VF_N) {
        const uint32_t k = n - i < VF_N ? n - i : VF_N;

        vf_store_n(o + i, vf_fma(vf_load_n(o + i, k), va, vf_mul(vf_load_n(p + i, k), vb)), k);
    }
}
