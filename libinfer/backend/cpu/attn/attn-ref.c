/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the attention kernels in plain C. They are the reference for the fast kernels.
 *
 * Sums over a block are computed in double precision and rounded to float once. attn.h describes
 * the memory layout of blocks and what is rounded before multiplication.
 */
#include "backend/cpu/attn/attn.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/attn/attn-q3.h"
#include "core/half.h"
#include "core/macros.h"

static const int8_t q4_levels[16] = CODEC_Q4_LEVELS;
static const int8_t q3_levels[8] = CODEC_Q3_LEVELS;

/* Returns the scales that follow the int8 elements of a Q8_0 query. */
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

static void quantise_ref(int8_t *q, float *scales, const float *x, bool half_scales, uint32_t n)
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

static void rotate_ref(float *x, uint32_t n)
{
    const uint32_t run = n & -n;

    for (uint32_t i = 0; i < n; i += run) {
        for (uint32_t stride = run / 2; stride > 0; stride /= 2)
            for (uint32_t j = i; j < i + run; j++)
                if ((j & stride) == 0) {
                    const float a = x[j], b = x[j + stride];

                    x[j] = a + b;
                    x[j + stride] = a - b;
                }
        for (uint32_t j = i; j < i + run; j++)
            x[j] *= (float)(1 / sqrt((double)run));
    }
}

/* Returns the binary16 scale with which the largest magnitude becomes @most, or NaN if an element
 * is NaN. */
static float half_scale(const float *x, uint32_t n, float most)
{
    float top = 0, rest = 0, scale;

    for (uint32_t i = 0; i < n; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        rest += x[i] * 0;
    }
    scale = f16_to_f32(f16_from_f32(top / most + rest));
    return isfinite(scale) ? scale : NAN;
}

/* Returns the level that is nearest to @x. If @x is half way between two levels, returns the level
 * of smaller magnitude. The sign of a zero decides whether the level is positive or negative. */
static uint8_t nearest_level(float x)
{
    uint8_t i = 8;

    while (i < 15 && fabsf(x) > (float)(q4_levels[i] + q4_levels[i + 1]) / 2)
        i++;
    return signbit(x) ? 15 - i : i;
}

static void quantise_q4(uint8_t *q, float *scales, const float *x, uint32_t n)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, n * sizeof(*y));
    rotate_ref(y, n);
    for (uint32_t b = 0; b < n / ATTN_Q8_BLOCK; b++) {
        const float *block = y + b * ATTN_Q8_BLOCK;
        const float scale = half_scale(block, ATTN_Q8_BLOCK, 127);
        const float inverse = scale >= ATTN_Q8_TINY ? 1 / scale : 0;

        scales[b] = scale;
        for (uint32_t i = 0; i < ATTN_Q8_BLOCK / 2; i++)
            q[b * ATTN_Q8_BLOCK / 2 + i] =
                (uint8_t)(nearest_level(block[i] * inverse) |
                          nearest_level(block[i + ATTN_Q8_BLOCK / 2] * inverse) << 4);
    }
}

static void quantise_q3(uint8_t *q, float *scales, const float *x, uint32_t n)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, n * sizeof(*y));
    rotate_ref(y, n);
    q3_encode(q, scales, y, n);
}

static void quantise_fp8(uint8_t *q, float *scale, const float *x, uint32_t n)
{
    float inverse;

    *scale = half_scale(x, n, 448);
    inverse = *scale >= ATTN_Q8_TINY ? 1 / *scale : 0;
    for (uint32_t i = 0; i < n; i++)
        q[i] = e4m3_from_f32(x[i] * inverse);
}

static void query_q8(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_Q8_BLOCK];

    for (uint32_t i = 0; i < head_dim; i += ATTN_Q8_BLOCK) {
        query_float(y, x + i, scale, ATTN_Q8_BLOCK);
        quantise_ref((int8_t *)q + i, q + head_dim / 4 + i / ATTN_Q8_BLOCK, y, false,
                     ATTN_Q8_BLOCK);
    }
}

static void query_q4(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    rotate_ref(y, head_dim);
    query_q8(q, y, scale, head_dim);
}

static const float *row_of(const float *x, const struct attn_args *args, uint32_t row)
{
    return x + (size_t)row * args->head_dim;
}

/* Returns the scale of the block of 32 elements @b of token @t. */
static float scale_of(const struct attn_args *args, enum codec format, uint32_t b, uint32_t t)
{
    const uint32_t n_bits = codec_info(format)->n_bits;
    const uint16_t *scales =
        (const void *)((const uint8_t *)args->kv +
                       (size_t)args->head_dim * args->block_tokens * n_bits / 8);

    if (format == CODEC_Q3_0)
        b /= CODEC_Q3_RUN / ATTN_Q8_BLOCK;
    return f16_to_f32(scales[(size_t)b * args->block_tokens + t]);
}

static double score_float(const struct attn_args *args, uint32_t row, uint32_t t, enum codec format)
{
    const float *q = row_of(args->q, args, row);
    const uint32_t bt = args->block_tokens;
    double sum = 0;

    for (uint32_t d = 0; d < args->head_dim; d++) {
        const size_t at = (size_t)d * bt + t, pair = ((size_t)d / 2 * bt + t) * 2 + d % 2;

        if (format == CODEC_F32)
            sum += (double)q[d] * (double)((const float *)args->kv)[at];
        else if (format == CODEC_F16)
            sum += (double)q[d] * (double)f16_to_f32(((const uint16_t *)args->kv)[at]);
        else if (format == CODEC_BF16)
            sum += (double)bf16_to_f32(((const uint16_t *)q)[d]) *
                   (double)bf16_to_f32(((const uint16_t *)args->kv)[pair]);
        else
            sum += (double)q[d] * (double)e4m3_to_f32(((const uint8_t *)args->kv)[at]);
    }
    return format == CODEC_FP8 ? sum * (double)scale_of(args, format, 0, t) : sum;
}

/* Returns the level of the low (@half 0) or the high half of a Q4_0 byte. */
static int32_t level_of(uint8_t byte, uint32_t half)
{
    return q4_levels[half ? byte >> 4 : byte & 15];
}

/* Returns the level of element @d of a Q3_0 token. Byte i of the token is at @p + i / @group ×
 * @step + i % @group × @near. */
static int32_t q3_level(const uint8_t *p, uint32_t group, size_t step, size_t near, uint32_t d)
{
    const uint32_t first = d / CODEC_Q3_RUN * CODEC_Q3_BYTES, c = d % CODEC_Q3_RUN;
    uint32_t code = 0;

    for (uint32_t j = 0; j < 3; j++) {
        const uint32_t i = first + (c < 96 ? c % 48 : c % 16 + 16 * j);
        const uint32_t byte = p[i / group * step + i % group * near];

        if (c < 96)
            return q3_levels[byte >> (c < 48 ? 0 : 4) & 7];
        code |= (byte >> (c < 112 ? 3 : 7) & 1) << j;
    }
    return q3_levels[code];
}

static int32_t key_of(const struct attn_args *args, enum codec format, uint32_t t, uint32_t d)
{
    const uint8_t *k = args->kv;
    const uint32_t b = d / ATTN_Q8_BLOCK, half = d % ATTN_Q8_BLOCK / 16, i = b * 16 + d % 16;

    if (format == CODEC_Q8_0)
        return k[((size_t)d / 4 * args->block_tokens + t) * 4 + d % 4] - 128;
    if (format == CODEC_Q3_0)
        return q3_level(k + (size_t)t * 4, 4, (size_t)args->block_tokens * 4, 1, d);
    return level_of(k[((size_t)i / 4 * args->block_tokens + t) * 4 + i % 4], half);
}

static int32_t value_of(const struct attn_args *args, enum codec format, uint32_t t, uint32_t d)
{
    const uint8_t *v = args->kv;
    const uint32_t b = d / ATTN_Q8_BLOCK, half = d % ATTN_Q8_BLOCK / 16, i = b * 16 + d % 16;

    if (format == CODEC_Q8_0)
        return (int8_t)v[((size_t)t / 4 * args->head_dim + d) * 4 + t % 4];
    if (format == CODEC_Q3_0)
        return q3_level(v + (size_t)(t / 4) * (args->head_dim * 3 / 8) * 4 + t % 4, 1, 4, 0, d);
    return level_of(v[((size_t)t / 4 * args->head_dim / 2 + i) * 4 + t % 4], half);
}

static double score_q8(const struct attn_args *args, uint32_t row, uint32_t t, enum codec format)
{
    const float *q = row_of(args->q, args, row);
    double sum = 0;

    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
        int32_t dot = 0;

        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++) {
            const uint32_t d = b * ATTN_Q8_BLOCK + i;

            dot += ((const int8_t *)q)[d] * key_of(args, format, t, d);
        }
        sum += (double)dot * (double)query_scales(q, args->head_dim)[b] *
               (double)scale_of(args, format, b, t);
    }
    return sum;
}

/* Returns whether numbers of the format are small integers with scales. */
static bool is_whole(enum codec format)
{
    return format == CODEC_Q8_0 || format == CODEC_Q4_0 || format == CODEC_Q3_0;
}

static void scores_ref(const struct attn_args *args, enum codec format)
{
    for (uint32_t row = 0; row < args->n_rows; row++)
        for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++)
            args->s[(size_t)row * args->block_tokens + t] =
                (float)(is_whole(format) ? score_q8(args, row, t, format)
                                         : score_float(args, row, t, format));
}

static double value_float(const struct attn_args *args, uint32_t row, uint32_t d, enum codec format)
{
    const float *p = args->s + (size_t)row * args->block_tokens;
    double sum = 0;

    for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++) {
        const size_t at = (size_t)t * args->head_dim + d;
        const size_t pair = ((size_t)t / 2 * args->head_dim + d) * 2 + t % 2;

        if (format == CODEC_F32)
            sum += (double)p[t] * (double)((const float *)args->kv)[at];
        else if (format == CODEC_F16)
            sum += (double)p[t] * (double)f16_to_f32(((const uint16_t *)args->kv)[at]);
        else if (format == CODEC_BF16)
            sum += (double)bf16_to_f32(bf16_from_f32(p[t])) *
                   (double)bf16_to_f32(((const uint16_t *)args->kv)[pair]);
        else
            sum += (double)p[t] * (double)scale_of(args, format, 0, t) *
                   (double)e4m3_to_f32(((const uint8_t *)args->kv)[at]);
    }
    return sum;
}

static double value_q8(const struct attn_args *args, uint32_t row, uint32_t d, enum codec format)
{
    const float *p = args->s + (size_t)row * args->block_tokens;
    const uint32_t b = d / ATTN_Q8_BLOCK, lo = args->range[row].lo, hi = args->range[row].hi;
    float top = 0, rest = 0, inverse;
    int32_t sum = 0;

    for (uint32_t t = lo; t < hi; t++) {
        const float scale = scale_of(args, format, b, t);

        top = scale > top ? scale : top;
        rest += scale * 0;
    }
    inverse = top > 0 && rest == 0 ? 65535 / top : 0;
    for (uint32_t t = lo; t < hi && inverse > 0; t++)
        if (!isnan(p[t])) /* if p[t] is NaN, the sum of the row's weights is NaN, and so are its
                             results */
            sum += (int32_t)rintf(p[t] * (scale_of(args, format, b, t) * inverse)) *
                   value_of(args, format, t, d);
    return (double)sum * (double)(top + rest) / 65535;
}

static void values_ref(const struct attn_args *args, enum codec format)
{
    for (uint32_t row = 0; row < args->n_rows; row++)
        for (uint32_t d = 0; d < args->head_dim; d++) {
            float *o = &args->o[(size_t)row * args->head_dim + d];

            if (args->range[row].lo < args->range[row].hi)
                *o = (float)((double)*o + (is_whole(format) ? value_q8(args, row, d, format)
                                                            : value_float(args, row, d, format)));
        }
}

#define KERNELS(format, suffix)                                                                    \
    static void scores_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        scores_ref(args, format);                                                                  \
    }                                                                                              \
    static void values_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        values_ref(args, format);                                                                  \
    }

KERNELS(CODEC_F32, f32)
KERNELS(CODEC_F16, f16)
KERNELS(CODEC_BF16, bf16)
KERNELS(CODEC_Q8_0, q8)
KERNELS(CODEC_Q4_0, q4)
KERNELS(CODEC_FP8, fp8)
KERNELS(CODEC_Q3_0, q3)

static float softmax_ref(float *s, uint32_t n, float *max, float *sum)
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

static void merge_ref(float *o, const float *p, float a, float b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        o[i] = (float)((double)o[i] * (double)a + (double)p[i] * (double)b);
}

const struct attn_fns attn_ref = {
    .name = "ref",
    .query = {query_float, query_float, query_bf16, query_q8, query_q4, query_float, query_q4},
    .scores = {scores_f32, scores_f16, scores_bf16, scores_q8, scores_q4, scores_fp8, scores_q3},
    .values = {values_f32, values_f16, values_bf16, values_q8, values_q4, values_fp8, values_q3},
    .softmax = softmax_ref,
    .merge = merge_ref,
    .quantise = quantise_ref,
    .quantise_q4 = quantise_q4,
    .quantise_q3 = quantise_q3,
    .quantise_fp8 = quantise_fp8,
    .rotate = rotate_ref,
};
