/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of attention: the definition
 *
 * Sums over a block are in double and rounded to float once; attn.h says how blocks lie in memory
 * and what is rounded before it is multiplied.
 */
#include "backend/cpu/attn.h"

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"

/* What follows the int8 of a query of Q8_0. */
static const float *query_scales(const float *q, uint32_t head_dim)
{
    return q + head_dim / 4;
}

static void query_float(float *q, const float *x, float scale, uint32_t head_dim)
{
    for (uint32_t d = 0; d < head_dim; d++)
        q[d] = x[d] * scale;
}

static void query_bf16(float *q, const float *x, float scale, uint32_t head_dim)
{
    for (uint32_t d = 0; d < head_dim; d++)
        ((uint16_t *)q)[d] = bf16_from_f32(x[d] * scale);
}

static void quantise(int8_t *q, float *scales, const float *x, bool half_scales, uint32_t n)
{
    for (uint32_t b = 0; b < n / ATTN_Q8_BLOCK; b++, x += ATTN_Q8_BLOCK, q += ATTN_Q8_BLOCK) {
        float top = 0, rest = 0, scale;

        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++) {
            top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
            rest += x[i] * 0;
        }
        scale = top / 127 + rest;
        if (half_scales)
            scale = f16_to_f32(f16_from_f32(scale));
        scale = isfinite(scale) ? scale : NAN;
        scales[b] = scale;
        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++) {
            const float y = scale >= ATTN_Q8_TINY ? rintf(x[i] * (1 / scale)) : 0;

            q[i] = (int8_t)(y > 127 ? 127 : y < -127 ? -127 : y);
        }
    }
}

static void query_q8(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_Q8_BLOCK];

    for (uint32_t i = 0; i < head_dim; i += ATTN_Q8_BLOCK) {
        query_float(y, x + i, scale, ATTN_Q8_BLOCK);
        quantise((int8_t *)q + i, q + head_dim / 4 + i / ATTN_Q8_BLOCK, y, false, ATTN_Q8_BLOCK);
    }
}

static const float *row_of(const float *x, const struct attn_args *args, uint32_t row)
{
    return x + (size_t)row * args->head_dim;
}

static double score_float(const struct attn_args *args, uint32_t row, uint32_t t,
                          enum attn_format format)
{
    const float *q = row_of(args->q, args, row);
    const uint32_t bt = args->block_tokens;
    double sum = 0;

    for (uint32_t d = 0; d < args->head_dim; d++) {
        const size_t at = (size_t)d * bt + t, pair = ((size_t)d / 2 * bt + t) * 2 + d % 2;

        if (format == ATTN_F32)
            sum += (double)q[d] * (double)((const float *)args->kv)[at];
        else if (format == ATTN_F16)
            sum += (double)q[d] * (double)f16_to_f32(((const uint16_t *)args->kv)[at]);
        else
            sum += (double)bf16_to_f32(((const uint16_t *)q)[d]) *
                   (double)bf16_to_f32(((const uint16_t *)args->kv)[pair]);
    }
    return sum;
}

/* The scale of block @b of token @t. */
static float q8_scale(const struct attn_args *args, uint32_t b, uint32_t t)
{
    const uint16_t *scales =
        (const void *)((const uint8_t *)args->kv + (size_t)args->head_dim * args->block_tokens);

    return f16_to_f32(scales[(size_t)b * args->block_tokens + t]);
}

static double score_q8(const struct attn_args *args, uint32_t row, uint32_t t)
{
    const float *q = row_of(args->q, args, row);
    const uint8_t *k = args->kv;
    double sum = 0;

    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
        int32_t dot = 0;

        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++) {
            const uint32_t d = b * ATTN_Q8_BLOCK + i;
            const size_t at = ((size_t)d / 4 * args->block_tokens + t) * 4 + d % 4;

            dot += ((const int8_t *)q)[d] * (k[at] - 128);
        }
        sum +=
            (double)dot * (double)query_scales(q, args->head_dim)[b] * (double)q8_scale(args, b, t);
    }
    return sum;
}

static void scores(const struct attn_args *args, enum attn_format format)
{
    for (uint32_t row = 0; row < args->n_rows; row++)
        for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++)
            args->s[(size_t)row * args->block_tokens + t] =
                (float)(format == ATTN_Q8_0 ? score_q8(args, row, t)
                                            : score_float(args, row, t, format));
}

static double value_float(const struct attn_args *args, uint32_t row, uint32_t d,
                          enum attn_format format)
{
    const float *p = args->s + (size_t)row * args->block_tokens;
    double sum = 0;

    for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++) {
        const size_t at = (size_t)t * args->head_dim + d;
        const size_t pair = ((size_t)t / 2 * args->head_dim + d) * 2 + t % 2;

        if (format == ATTN_F32)
            sum += (double)p[t] * (double)((const float *)args->kv)[at];
        else if (format == ATTN_F16)
            sum += (double)p[t] * (double)f16_to_f32(((const uint16_t *)args->kv)[at]);
        else
            sum += (double)bf16_to_f32(bf16_from_f32(p[t])) *
                   (double)bf16_to_f32(((const uint16_t *)args->kv)[pair]);
    }
    return sum;
}

static double value_q8(const struct attn_args *args, uint32_t row, uint32_t d)
{
    const float *p = args->s + (size_t)row * args->block_tokens;
    const uint32_t b = d / ATTN_Q8_BLOCK, lo = args->range[row].lo, hi = args->range[row].hi;
    float top = 0, rest = 0, inverse;
    int32_t sum = 0;

    for (uint32_t t = lo; t < hi; t++) {
        top = q8_scale(args, b, t) > top ? q8_scale(args, b, t) : top;
        rest += q8_scale(args, b, t) * 0;
    }
    inverse = top > 0 && rest == 0 ? 65535 / top : 0;
    for (uint32_t t = lo; t < hi && inverse > 0; t++) {
        const int8_t v =
            ((const int8_t *)args->kv)[((size_t)t / 4 * args->head_dim + d) * 4 + t % 4];

        if (!isnan(p[t])) /* else the row's sum of weights is NaN already */
            sum += (int32_t)rintf(p[t] * (q8_scale(args, b, t) * inverse)) * v;
    }
    return (double)sum * (double)(top + rest) / 65535;
}

static void values(const struct attn_args *args, enum attn_format format)
{
    for (uint32_t row = 0; row < args->n_rows; row++)
        for (uint32_t d = 0; d < args->head_dim; d++) {
            float *o = &args->o[(size_t)row * args->head_dim + d];

            if (args->range[row].lo < args->range[row].hi)
                *o =
                    (float)((double)*o + (format == ATTN_Q8_0 ? value_q8(args, row, d)
                                                              : value_float(args, row, d, format)));
        }
}

#define KERNELS(format, suffix)                                                                    \
    static void scores_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        scores(args, format);                                                                      \
    }                                                                                              \
    static void values_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        values(args, format);                                                                      \
    }

KERNELS(ATTN_F32, f32)
KERNELS(ATTN_F16, f16)
KERNELS(ATTN_BF16, bf16)
KERNELS(ATTN_Q8_0, q8)

static float softmax(float *s, uint32_t n, float *max, float *sum)
{
    const float old = *max;
    double factor;

    for (uint32_t i = 0; i < n; i++)
        if (s[i] > *max)
            *max = s[i];
    factor = old == *max ? 1 : exp((double)old - (double)*max);
    for (uint32_t i = 0; i < ATTN_LANES; i++)
        sum[i] = (float)((double)sum[i] * factor);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (float)exp((double)s[i] - (double)*max);
        sum[i % ATTN_LANES] += s[i];
    }
    return (float)factor;
}

static void merge(float *o, const float *p, float a, float b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        o[i] = (float)((double)o[i] * (double)a + (double)p[i] * (double)b);
}

const struct attn_fns attn_ref = {
    .name = "ref",
    .query = {query_float, query_float, query_bf16, query_q8},
    .scores = {scores_f32, scores_f16, scores_bf16, scores_q8},
    .values = {values_f32, values_f16, values_bf16, values_q8},
    .softmax = softmax,
    .merge = merge,
    .quantise = quantise,
};
