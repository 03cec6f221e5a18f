/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of attention: the definition
 *
 * Products round to float after each addition, because a chain may be cut into several calls and
 * must not tell; exponentials and their sum are in double.
 */
#include "backend/cpu/attn.h"

#include <math.h>

#include "core/half.h"

static float element(const void *b, size_t i, enum attn_format format)
{
    switch (format) {
    case ATTN_F16:
        return f16_to_f32(((const uint16_t *)b)[i]);
    case ATTN_BF16:
        return bf16_to_f32(((const uint16_t *)b)[i]);
    default:
        return ((const float *)b)[i];
    }
}

static void mul(const struct attn_mul_args *args, enum attn_format format)
{
    for (uint32_t m = 0; m < args->M; m++)
        for (uint32_t k = 0; k < args->K; k++)
            for (uint32_t n = 0; n < args->N; n++)
                args->c[m * args->ldc + n] +=
                    args->a[m * args->lda + k] * element(args->b, k * args->ldb + n, format);
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

static float softmax(float *s, uint32_t n, float *max, float *sum)
{
    const float old = *max;
    double total = 0, factor;

    for (uint32_t i = 0; i < n; i++)
        if (s[i] > *max)
            *max = s[i];
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (float)exp((double)s[i] - (double)*max);
        total += (double)s[i];
    }
    factor = old == *max ? 1 : exp((double)old - (double)*max);
    *sum = (float)((double)*sum * factor + total);
    return (float)factor;
}

const struct attn_fns attn_ref = {
    .name = "ref",
    .mul = {[ATTN_F32] = mul_f32, [ATTN_F16] = mul_f16, [ATTN_BF16] = mul_bf16},
    .softmax = softmax,
};
