/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes rotated heads as codes with scales (see code.h). */
#include "quant/code.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/half.h"

#define RUN_BYTES   16u /* of codes of 4, 2 and 1 bits */
#define MAX_BORDERS 7u

/* Codes of more bits have their lowest LOW_BITS bits in a plane of their own. */
#define LOW_BITS 4u

/* The largest level of Max (1960) for 2^n codes, in standard deviations. */
static const float max_top[] = {0, 0.7979f, 1.510f, 2.152f, 2.733f};

/* Levels that are symmetric about zero, as the encoder needs them. */
struct levels {
    const int8_t *of;
    uint32_t half;              /* the number of positive levels */
    float borders[MAX_BORDERS]; /* the middles between positive levels */
};

static struct levels levels_of(enum codec codec)
{
    struct levels l = {.of = codec_info(codec)->levels, .half = 1u << (code_bits(codec) - 1)};

    for (uint32_t i = 0; code_bits(codec) <= LOW_BITS && i + 1 < l.half; i++)
        l.borders[i] = (float)(l.of[l.half + i] + l.of[l.half + i + 1]) / 2;
    return l;
}

uint32_t code_bits(enum codec codec)
{
    const struct codec_info *info = codec_info(codec);

    return info->n_bits - (info->residual ? 1 : 0);
}

/* Returns the code of element @d in a plane of codes with at most LOW_BITS bits. */
static uint32_t plane_at(const uint8_t *bytes, uint32_t n_bits, uint32_t d)
{
    const uint32_t run = n_bits == 3 ? CODEC_Q3_RUN : RUN_BYTES * 8 / n_bits, c = d % run;
    const uint8_t *p = bytes + d / run * (n_bits == 3 ? CODEC_Q3_BYTES : RUN_BYTES);
    const uint32_t shift = c < 112 ? 3 : 7;

    if (n_bits != 3)
        return (uint32_t)p[c % RUN_BYTES] >> c / RUN_BYTES * n_bits & ((1u << n_bits) - 1);
    if (c < 96)
        return (uint32_t)p[c % 48] >> c / 48 * 4 & 7;
    return (p[c % 16] >> shift & 1) | (p[c % 16 + 16] >> shift & 1) << 1 |
           (p[c % 16 + 32] >> shift & 1) << 2;
}

/* Returns the elements of a run of codes with more than LOW_BITS bits. */
static uint32_t planes_run(uint32_t n_bits)
{
    return RUN_BYTES * 8 / (n_bits - LOW_BITS);
}

/* Returns the element @d of codes with more than LOW_BITS bits. */
static uint32_t planes_at(const uint8_t *bytes, uint32_t n_bits, uint32_t d)
{
    const uint32_t run = planes_run(n_bits), n_low = run * LOW_BITS / 8;
    const uint8_t *p = bytes + (size_t)(d / run) * (n_low + RUN_BYTES);

    return plane_at(p, LOW_BITS, d % run) | plane_at(p + n_low, n_bits - LOW_BITS, d % run)
                                                << LOW_BITS;
}

uint32_t code_at(const uint8_t *bytes, uint32_t n_bits, uint32_t d)
{
    if (n_bits > LOW_BITS)
        return planes_at(bytes, n_bits, d);
    return plane_at(bytes, n_bits, d);
}

/* Packs the codes, of at most LOW_BITS bits, of @n elements. */
static void plane_pack(uint8_t *bytes, const uint8_t *codes, uint32_t n_bits, uint32_t n)
{
    const uint32_t per_byte = 8 / n_bits;

    for (uint32_t d = 0; n_bits != 3 && d < n; d += RUN_BYTES * per_byte)
        for (uint32_t i = 0; i < RUN_BYTES; i++) {
            uint32_t byte = 0;

            for (uint32_t j = 0; j < per_byte; j++)
                byte |= (uint32_t)codes[d + j * RUN_BYTES + i] << j * n_bits;
            *bytes++ = (uint8_t)byte;
        }
    for (uint32_t d = 0; n_bits == 3 && d < n; d += CODEC_Q3_RUN)
        for (uint32_t i = 0; i < CODEC_Q3_BYTES; i++) {
            const uint32_t low = codes[d + 96 + i % 16] >> i / 16 & 1;
            const uint32_t high = codes[d + 112 + i % 16] >> i / 16 & 1;

            *bytes++ =
                (uint8_t)(codes[d + i] | low << 3 | (uint32_t)codes[d + 48 + i] << 4 | high << 7);
        }
}

/* Packs the codes of @n elements. */
static void codes_pack(uint8_t *bytes, const uint8_t *codes, uint32_t n_bits, uint32_t n)
{
    uint8_t low[RUN_BYTES * 8], high[RUN_BYTES * 8];
    uint32_t run;

    if (n_bits <= LOW_BITS) {
        plane_pack(bytes, codes, n_bits, n);
        return;
    }
    run = planes_run(n_bits);
    for (uint32_t d = 0; d < n; d += run) {
        for (uint32_t i = 0; i < run; i++) {
            low[i] = codes[d + i] & ((1u << LOW_BITS) - 1);
            high[i] = codes[d + i] >> LOW_BITS;
        }
        plane_pack(bytes, low, LOW_BITS, run);
        bytes += run * LOW_BITS / 8;
        plane_pack(bytes, high, n_bits - LOW_BITS, run);
        bytes += RUN_BYTES;
    }
}

void code_signs(float *x, uint32_t seed, uint32_t n)
{
    uint64_t state = seed;

    for (uint32_t i = 0; i < n; i += 64) {
        uint64_t bits = state += UINT64_C(0x9e3779b97f4a7c15);

        bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
        bits ^= bits >> 31;
        for (uint32_t j = i; j < MIN(i + 64, n); j++)
            x[j] = bits >> (j - i) & 1 ? -x[j] : x[j];
    }
}

/* Returns @x as it is stored in F16, or NaN if that is not finite. */
static float as_half(float x)
{
    x = f16_to_f32(f16_from_f32(x));
    return isfinite(x) ? x : NAN;
}

/* Writes the code of the level that is nearest to each x × @factor. Half way between two levels,
 * it is the level of smaller magnitude. */
static void codes_nearest(uint8_t *codes, const struct levels *l, const float *x, float factor,
                          uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float y = x[i] * factor, a = fabsf(y);
        uint32_t k = 0;

        for (uint32_t j = 0; j + 1 < l->half; j++)
            k += a > l->borders[j];
        codes[i] = (uint8_t)(signbit(y) ? l->half - 1 - k : l->half + k);
    }
}

/* Writes the codes of @x for the scale @scale, and returns the scale with which these codes have
 * the least mean squared error. */
static float scale_fit(const struct levels *l, uint8_t *codes, const float *x, float scale,
                       uint32_t n)
{
    int32_t squares = 0;
    float sum = 0;

    codes_nearest(codes, l, x, 1 / scale, n);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t level = l->of[codes[i]];

        sum += x[i] * (float)level;
        squares += level * level;
    }
    return sum / (float)squares;
}

/* Returns the scale of a group before it is rounded to F16. It is not finite if an element is
 * not. May change @codes. */
static float scale_of(enum codec codec, const struct levels *l, uint8_t *codes, const float *x,
                      uint32_t n)
{
    float sum = 0, top = 0, rest = 0, scale;

    if (codec == CODEC_Q4_0 || code_bits(codec) > LOW_BITS) {
        for (uint32_t i = 0; i < n; i++) {
            top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
            rest += x[i] * 0;
        }
        return top / (codec == CODEC_Q4_0 ? 127 : (float)l->of[2 * l->half - 1]) + rest;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    scale = sqrtf(sum / (float)n) * (max_top[code_bits(codec)] / 127);
    if (codec_info(codec)->turn == CODEC_ROTATED && scale >= CODE_TINY && isfinite(scale))
        scale = scale_fit(l, codes, x, scale, n);
    return scale;
}

/* Writes the codes of levels in equal distances that are nearest to (x - @offset) × @inverse. */
static void codes_even(uint8_t *codes, const float *x, float offset, float inverse, uint32_t n_bits,
                       uint32_t n)
{
    const float last = (float)((1u << n_bits) - 1);

    for (uint32_t i = 0; i < n; i++) {
        const float y = rintf(((x[i] - offset) * inverse + last) / 2);

        codes[i] = (uint8_t)(y > 0 ? y < last ? y : last : 0);
    }
}

/* Encodes a group whose codes have an offset. Returns its scale. */
static float group_affine(uint8_t *codes, float *ret_offset, const float *x, uint32_t n_bits,
                          uint32_t n)
{
    const float last = (float)((1u << n_bits) - 1);
    float least = x[0], most = x[0], rest = 0, scale, offset;

    for (uint32_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        rest += x[i] * 0;
    }
    offset = as_half((least + most) / 2 + rest);
    scale = as_half((most - least) / (2 * last) + rest);
    codes_even(codes, x, offset, scale >= CODE_TINY ? 1 / scale : 0, n_bits, n);
    *ret_offset = isfinite(scale) && isfinite(offset) ? offset : 0;
    return isfinite(offset) ? scale : NAN;
}

/* Encodes a group without an offset. Returns its scale. */
static float group_scaled(enum codec codec, const struct levels *l, uint8_t *codes, const float *x,
                          uint32_t n)
{
    const float scale = as_half(scale_of(codec, l, codes, x, n));
    const float inverse = scale >= CODE_TINY ? 1 / scale : 0;

    if (code_bits(codec) > LOW_BITS)
        codes_even(codes, x, 0, inverse, code_bits(codec), n);
    else
        codes_nearest(codes, l, x, inverse, n);
    return scale;
}

void code_encode(enum codec codec, uint8_t *bytes, float *scalars, const float *x, uint32_t n,
                 float *ret_rest)
{
    const struct codec_info *info = codec_info(codec);
    const uint32_t group = codec_scale_elements(codec, n), n_groups = n / group;
    const struct levels l = levels_of(codec);
    uint8_t codes[CODE_HEAD_MAX];

    assert(n <= CODE_HEAD_MAX);
    for (uint32_t i = 0; i < n_groups; i++) {
        const float *y = x + i * group;
        uint8_t *to = codes + i * group;

        if (info->offset)
            scalars[i] = group_affine(to, &scalars[n_groups + i], y, code_bits(codec), group);
        else
            scalars[i] = group_scaled(codec, &l, to, y, group);
        for (uint32_t j = 0; info->residual && j < group; j++)
            ret_rest[i * group + j] = y[j] - (float)l.of[to[j]] * scalars[i];
    }
    codes_pack(bytes, codes, code_bits(codec), n);
}

void code_residual(enum codec codec, uint8_t *bytes, float *scalars, const float *rest, uint32_t n)
{
    uint8_t codes[CODE_HEAD_MAX];
    float sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += rest[i] * rest[i];
        codes[i] = rest[i] > 0;
    }
    scalars[1] = as_half(sqrtf(sum) * sqrtf((float)M_PI / (2 * (float)n)));
    codes_pack(bytes + (size_t)n * code_bits(codec) / 8, codes, 1, n);
}

void code_decode(enum codec codec, float *x, const uint8_t *bytes, const float *scalars, uint32_t n)
{
    const struct codec_info *info = codec_info(codec);
    const uint32_t group = codec_scale_elements(codec, n), n_bits = code_bits(codec);

    for (uint32_t d = 0; d < n; d++) {
        x[d] = (float)info->levels[code_at(bytes, n_bits, d)] * scalars[d / group];
        if (info->offset)
            x[d] += scalars[n / group + d / group];
    }
}
