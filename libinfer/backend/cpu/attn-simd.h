/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kernels of attention, in the vector operations of a simd-<isa>.h that was included before
 *
 * A product keeps a tile of ATTN_MR rows × ATTN_NR vectors of C in registers while it walks over
 * k: per k it loads NR vectors of B once and broadcasts MR elements of A. One or two rows
 * (decoding) take wider tiles instead, so that enough chains of additions are under way.
 * No include guard: each ISA file includes this once and names the table.
 */

#include "backend/cpu/attn.h"

#include <math.h>

#include "backend/cpu/simd-exp.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vf b_load(const void *b, size_t i, enum attn_format format)
{
    switch (format) {
    case ATTN_F16:
        return vf_load_f16((const uint16_t *)b + i);
    case ATTN_BF16:
        return vf_load_bf16((const uint16_t *)b + i);
    default:
        return vf_load((const float *)b + i);
    }
}

ALWAYS_INLINE vf b_load_n(const void *b, size_t i, uint32_t n, enum attn_format format)
{
    switch (format) {
    case ATTN_F16:
        return vf_load_f16_n((const uint16_t *)b + i, n);
    case ATTN_BF16:
        return vf_load_bf16_n((const uint16_t *)b + i, n);
    default:
        return vf_load_n((const float *)b + i, n);
    }
}

/* mr rows from @m on, nr whole vectors of columns from @n on; mr and nr are constants. */
ALWAYS_INLINE void tile(const struct attn_mul_args *args, uint32_t m, uint32_t n, const uint32_t mr,
                        const uint32_t nr, enum attn_format format)
{
    const float *a = args->a + m * args->lda;
    float *c = args->c + m * args->ldc + n;
    vf acc[8][8];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            acc[i][j] = vf_load(c + i * args->ldc + j * VF_N);

    for (uint32_t k = 0; k < args->K; k++) {
        vf b[8];

#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            b[j] = b_load(args->b, k * args->ldb + n + j * VF_N, format);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const vf x = vf_set1(a[i * args->lda + k]);

#pragma GCC unroll 8
            for (uint32_t j = 0; j < nr; j++)
                acc[i][j] = vf_fma(x, b[j], acc[i][j]);
        }
    }

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            vf_store(c + i * args->ldc + j * VF_N, acc[i][j]);
}

/* The last @n_rest < VF_N columns, one row. */
ALWAYS_INLINE void edge(const struct attn_mul_args *args, uint32_t m, uint32_t n, uint32_t n_rest,
                        enum attn_format format)
{
    const float *a = args->a + m * args->lda;
    float *c = args->c + m * args->ldc + n;
    vf acc = vf_load_n(c, n_rest);

    for (uint32_t k = 0; k < args->K; k++)
        acc = vf_fma(vf_set1(a[k]), b_load_n(args->b, k * args->ldb + n, n_rest, format), acc);
    vf_store_n(c, acc, n_rest);
}

/* All columns of mr rows. */
ALWAYS_INLINE void rows(const struct attn_mul_args *args, uint32_t m, const uint32_t mr,
                        const uint32_t nr, enum attn_format format)
{
    uint32_t n = 0;

    for (; n + nr * VF_N <= args->N; n += nr * VF_N)
        tile(args, m, n, mr, nr, format);
    for (; n + VF_N <= args->N; n += VF_N)
        tile(args, m, n, mr, 1, format);
    if (n < args->N)
        for (uint32_t i = 0; i < mr; i++)
            edge(args, m + i, n, args->N - n, format);
}

ALWAYS_INLINE void mul(const struct attn_mul_args *args, enum attn_format format)
{
    uint32_t m = 0;

    for (; m + ATTN_MR <= args->M; m += ATTN_MR)
        rows(args, m, ATTN_MR, ATTN_NR, format);
    switch (args->M - m) {
    case 5:
        rows(args, m, 3, ATTN_NR, format);
        rows(args, m + 3, 2, ATTN_NR, format);
        break;
    case 4:
        rows(args, m, 4, ATTN_NR, format);
        break;
    case 3:
        rows(args, m, 3, ATTN_NR, format);
        break;
    case 2:
        rows(args, m, 2, 4, format);
        break;
    case 1:
        rows(args, m, 1, 8, format);
        break;
    }
}

static void mul_f32(const struct attn_mul_args *args)
{
    mul(args, ATTN_F32);
}

static void mul_f16(const struct attn_mul_args *args)
{
    mul(args, ATTN_F16);
}

static void mul_bf16(const struct attn_mul_args *args)
{
    mul(args, ATTN_BF16);
}

static float exp_of(float x)
{
    float y[VF_N];

    vf_store(y, vf_exp(vf_set1(x)));
    return y[0];
}

static float softmax(float *s, uint32_t n, float *max, float *sum)
{
    const float old = *max;
    vf top = vf_set1(old), total = vf_set1(0), m;
    uint32_t i = 0;
    float factor = 1;

    for (; i + VF_N <= n; i += VF_N)
        top = vf_max(vf_load(s + i), top);
    *max = vf_top(top);
    for (; i < n; i++)
        *max = s[i] > *max ? s[i] : *max;

    m = vf_set1(*max);
    for (i = 0; i + VF_N <= n; i += VF_N) {
        const vf e = vf_exp(vf_sub(vf_load(s + i), m));

        vf_store(s + i, e);
        total = vf_add(total, e);
    }
    if (i < n) {
        /* Absent elements must add 0, not exp(-max). */
        vf_store_n(s + i, vf_exp(vf_sub(vf_load_n(s + i, n - i), m)), n - i);
        total = vf_add(total, vf_load_n(s + i, n - i));
    }
    if (*max != old)
        factor = exp_of(old - *max);
    *sum = *sum * factor + vf_sum(total);
    return factor;
}

#define ATTN_FNS(rung, flags)                                                                      \
    {                                                                                              \
        .name = rung, .cpu_flags = flags,                                                          \
        .mul = {[ATTN_F32] = mul_f32, [ATTN_F16] = mul_f16, [ATTN_BF16] = mul_bf16},               \
        .softmax = softmax,                                                                        \
    }
