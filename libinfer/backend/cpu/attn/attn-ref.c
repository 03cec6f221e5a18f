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

#include "core/half.h"
#include "core/macros.h"
#include "quant/code-rows.h"

static const int8_t q4_levels[16] = CODEC_Q4_LEVELS;

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

static void query_rotated(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    rotate_ref(y, head_dim);
    query_q8(q, y, scale, head_dim);
}

static void query_signed(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, head_dim * sizeof(*y));
    code_signs(y, CODE_SEED, head_dim);
    query_rotated(q, y, scale, head_dim);
}

/* The query for the residual follows head_dim / 2 floats after the one for the codes. */
static void query_residual(float *q, const float *x, float scale, uint32_t head_dim)
{
    float y[ATTN_HEAD_MAX];

    query_signed(q, x, scale, head_dim);
    memcpy(y, x, head_dim * sizeof(*y));
    code_signs(y, CODE_SEED, head_dim);
    rotate_ref(y, head_dim);
    code_signs(y, CODE_RESIDUAL_SEED, head_dim);
    query_rotated(q + head_dim / 2, y, scale, head_dim);
}

static const float *row_of(const float *x, const struct attn_args *args, uint32_t row)
{
    return x + (size_t)row * args->head_dim;
}

/* Returns F16 number @i of token @t after the bytes of a block. */
static float scalar_of(const struct attn_args *args, uint32_t i, uint32_t t)
{
    const uint16_t *scalars =
        (const void *)((const uint8_t *)args->kv +
                       (size_t)codec_code_bytes(args->codec, args->head_dim) * args->block_tokens);

    return f16_to_f32(scalars[(size_t)i * args->block_tokens + t]);
}

/* Returns the group of elements with one scale to which block @b of 32 elements belongs. */
static uint32_t group_of(const struct attn_args *args, uint32_t b)
{
    return b * ATTN_Q8_BLOCK / codec_scale_elements(args->codec, args->head_dim);
}

/* Returns the scale of the block of 32 elements @b of token @t. */
static float scale_of(const struct attn_args *args, uint32_t b, uint32_t t)
{
    return scalar_of(args, group_of(args, b), t);
}

/* Returns the offset that belongs to scale_of(); 0 if the format has none. */
static float offset_of(const struct attn_args *args, uint32_t b, uint32_t t)
{
    const uint32_t n = args->head_dim / codec_scale_elements(args->codec, args->head_dim);

    return codec_info(args->codec)->offset ? scalar_of(args, n + group_of(args, b), t) : 0;
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
    return format == CODEC_FP8 ? sum * (double)scalar_of(args, 0, t) : sum;
}

/* Gathers the bytes of token @t, without its scales. */
static void token_bytes(const struct attn_args *args, bool keys, uint32_t t, uint8_t *ret)
{
    const uint32_t n = codec_code_bytes(args->codec, args->head_dim);
    const uint8_t *from = args->kv;

    for (uint32_t i = 0; i < n; i++)
        ret[i] = keys ? from[((size_t)i / 4 * args->block_tokens + t) * 4 + i % 4]
                      : from[((size_t)t / 4 * n + i) * 4 + t % 4];
}

/* Reads the levels of token @t. */
static void token_levels(const struct attn_args *args, bool keys, uint32_t t, int32_t *ret)
{
    const struct codec_info *info = codec_info(args->codec);
    uint8_t bytes[ATTN_HEAD_MAX];

    token_bytes(args, keys, t, bytes);
    for (uint32_t d = 0; d < args->head_dim; d++)
        ret[d] = info->kind == CODEC_CODES ? info->levels[code_at(bytes, code_bits(args->codec), d)]
                 : keys                    ? bytes[d] - 128
                                           : (int8_t)bytes[d];
}

/* Returns the score of the residual of token @t. */
static double score_residual(const struct attn_args *args, uint32_t row, uint32_t t)
{
    const uint32_t hd = args->head_dim;
    const float *q = row_of(args->q, args, row) + hd / 2;
    uint8_t bytes[ATTN_HEAD_MAX];
    double sum = 0;

    token_bytes(args, true, t, bytes);
    for (uint32_t d = 0; d < hd; d++) {
        const uint32_t bit = code_at(bytes + (size_t)hd * code_bits(args->codec) / 8, 1, d);

        sum += (double)((const int8_t *)q)[d] * (double)query_scales(q, hd)[d / ATTN_Q8_BLOCK] *
               (bit ? 1 : -1);
    }
    return sum * (double)scalar_of(args, 1, t);
}

static double score_whole(const struct attn_args *args, uint32_t row, uint32_t t)
{
    const float *q = row_of(args->q, args, row);
    int32_t levels[ATTN_HEAD_MAX];
    double sum = 0;

    token_levels(args, true, t, levels);
    for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
        int32_t dot = 0, all = 0;

        for (uint32_t d = b * ATTN_Q8_BLOCK; d < (b + 1) * ATTN_Q8_BLOCK; d++) {
            dot += ((const int8_t *)q)[d] * levels[d];
            all += ((const int8_t *)q)[d];
        }
        sum += (double)query_scales(q, args->head_dim)[b] *
               ((double)dot * (double)scale_of(args, b, t) +
                (double)all * (double)offset_of(args, b, t));
    }
    return codec_info(args->codec)->residual ? sum + score_residual(args, row, t) : sum;
}

static double score_rows(const struct attn_args *args, uint32_t row, uint32_t t)
{
    const size_t n = codec_code_bytes(args->codec, args->head_dim);
    const float *q = row_of(args->q, args, row);
    float y[ATTN_HEAD_MAX];
    double sum = 0;

    code_rows_decode(args->codec, y, (const uint8_t *)args->kv + t * n, args->head_dim);
    for (uint32_t d = 0; d < args->head_dim; d++)
        sum += (double)q[d] * (double)y[d];
    return sum;
}

static void scores_ref(const struct attn_args *args, enum codec format)
{
    const enum codec_kind kind = codec_info(format)->kind;

    for (uint32_t row = 0; row < args->n_rows; row++)
        for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++)
            args->s[(size_t)row * args->block_tokens + t] =
                (float)(kind == CODEC_FLOATS ? score_float(args, row, t, format)
                        : kind == CODEC_ROWS ? score_rows(args, row, t)
                                             : score_whole(args, row, t));
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
            sum += (double)p[t] * (double)scalar_of(args, 0, t) *
                   (double)e4m3_to_f32(((const uint8_t *)args->kv)[at]);
    }
    return sum;
}

/* Returns the largest scale of block @b that a row sees. *ret_rest is 0, or NaN if a scale is not
 * finite. */
static float top_scale(const struct attn_args *args, uint32_t row, uint32_t b, float *ret_rest)
{
    float top = 0, rest = 0;

    for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++) {
        const float scale = scale_of(args, b, t);

        top = scale > top ? scale : top;
        rest += scale * 0;
    }
    *ret_rest = rest;
    return top;
}

/* Adds the products of the weights of a row and of the levels of all values to @sum, and those of
 * weights and offsets to @add, [head_dim / 32]. @inverse: 65535 ÷ the largest scale of each block,
 * or 0. */
static void values_sum(const struct attn_args *args, uint32_t row, const float *inverse,
                       int32_t *sum, double *add)
{
    const float *p = args->s + (size_t)row * args->block_tokens;
    int32_t levels[ATTN_HEAD_MAX];

    for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++) {
        if (isnan(p[t])) /* then the sum of the row's weights is NaN, and so are its results */
            continue;
        token_levels(args, false, t, levels);
        for (uint32_t b = 0; b < args->head_dim / ATTN_Q8_BLOCK; b++) {
            const float scale = scale_of(args, b, t);

            add[b] += (double)p[t] * (double)offset_of(args, b, t);
            for (uint32_t d = b * ATTN_Q8_BLOCK; inverse[b] > 0 && d < (b + 1) * ATTN_Q8_BLOCK; d++)
                sum[d] += (int32_t)rintf(p[t] * (scale * inverse[b])) * levels[d];
        }
    }
}

static void values_whole(const struct attn_args *args, uint32_t row)
{
    const uint32_t n_blocks = args->head_dim / ATTN_Q8_BLOCK;
    float inverse[ATTN_HEAD_MAX / ATTN_Q8_BLOCK], unit[ATTN_HEAD_MAX / ATTN_Q8_BLOCK];
    double add[ATTN_HEAD_MAX / ATTN_Q8_BLOCK] = {0};
    float *o = &args->o[(size_t)row * args->head_dim];
    int32_t sum[ATTN_HEAD_MAX] = {0};

    for (uint32_t b = 0; b < n_blocks; b++) {
        float rest, top = top_scale(args, row, b, &rest);

        inverse[b] = top > 0 && rest == 0 ? 65535 / top : 0;
        unit[b] = top + rest;
    }
    values_sum(args, row, inverse, sum, add);
    for (uint32_t d = 0; d < args->head_dim; d++) {
        const uint32_t b = d / ATTN_Q8_BLOCK;

        o[d] = (float)((double)o[d] + add[b] + (double)sum[d] * (double)unit[b] / 65535);
    }
}

static void values_rows(const struct attn_args *args, uint32_t row)
{
    const size_t n = codec_code_bytes(args->codec, args->head_dim);
    const float *p = args->s + (size_t)row * args->block_tokens;
    float *o = &args->o[(size_t)row * args->head_dim], y[ATTN_HEAD_MAX];
    double sum[ATTN_HEAD_MAX] = {0};

    for (uint32_t t = args->range[row].lo; t < args->range[row].hi; t++) {
        code_rows_decode(args->codec, y, (const uint8_t *)args->kv + t * n, args->head_dim);
        for (uint32_t d = 0; d < args->head_dim; d++)
            sum[d] += (double)p[t] * (double)y[d];
    }
    for (uint32_t d = 0; d < args->head_dim; d++)
        o[d] = (float)((double)o[d] + sum[d]);
}

static void values_floats(const struct attn_args *args, uint32_t row, enum codec format)
{
    for (uint32_t d = 0; d < args->head_dim; d++) {
        float *o = &args->o[(size_t)row * args->head_dim + d];

        *o = (float)((double)*o + value_float(args, row, d, format));
    }
}

static void values_ref(const struct attn_args *args, enum codec format)
{
    const enum codec_kind kind = codec_info(format)->kind;

    for (uint32_t row = 0; row < args->n_rows; row++) {
        if (args->range[row].lo >= args->range[row].hi)
            continue;
        if (kind == CODEC_FLOATS)
            values_floats(args, row, format);
        else if (kind == CODEC_ROWS)
            values_rows(args, row);
        else
            values_whole(args, row);
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
KERNELS(CODEC_FP8, fp8)
KERNELS(args->codec, other)

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
    .query = {[CODEC_F32] = query_float,
              [CODEC_F16] = query_float,
              [CODEC_BF16] = query_bf16,
              [CODEC_FP8] = query_float,
              ATTN_OF_CODES(query_q8, query_rotated, query_signed, query_residual, query_float)},
    .scores = {[CODEC_F32] = scores_f32,
               [CODEC_F16] = scores_f16,
               [CODEC_BF16] = scores_bf16,
               [CODEC_FP8] = scores_fp8,
               ATTN_OF_CODES(scores_other, scores_other, scores_other, scores_other, scores_other)},
    .values = {[CODEC_F32] = values_f32,
               [CODEC_F16] = values_f16,
               [CODEC_BF16] = values_bf16,
               [CODEC_FP8] = values_fp8,
               ATTN_OF_CODES(values_other, values_other, values_other, NULL, values_other)},
    .softmax = softmax_ref,
    .merge = merge_ref,
    .quantise = quantise_ref,
    .quantise_q4 = quantise_q4,
    .quantise_fp8 = quantise_fp8,
    .rotate = rotate_ref,
};
