/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes rows in the formats of MLX (affine.h), with the roundings of mlx 0.32.
 *
 * Affine: the edge of a group is its number with the largest magnitude. The step is chosen so that
 * one code represents the edge exactly, and another code represents 0 exactly. mlx computes in
 * float32 and then rounds scale and offset to the type of the matrix; the codes are computed with
 * the scale before this rounding.
 *
 * Floats: the scale is the largest magnitude of a group divided by the largest number of the
 * format. It is rounded to E4M3 (NVFP4), or up to a power of two (MXFP4, MXFP8). mlx rounds the
 * quotients to the type of the matrix. A number halfway between two numbers of E2M1 becomes the
 * smaller one.
 */
#include <assert.h>
#include <math.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/affine.h"
#include "quant/dtype.h"

#define GROUP_MOST 128u

/* Rounds to a whole number, halves to even. |x| is less than 2^22. */
static float code_round(float x)
{
    const float big = 0x1.8p23f;

    return x + big - big;
}

/* Rounds to @type, the type of the matrix. */
static float plane_round(enum plane_type type, float x)
{
    if (type == PLANE_F16)
        return f16_to_f32(f16_from_f32(x));
    return type == PLANE_BF16 ? bf16_to_f32(bf16_from_f32(x)) : x;
}

void affine_pack(const uint8_t *q, unsigned n, unsigned bits, uint8_t *out)
{
    for (unsigned i = 0; i < n; i += 8, out += bits) {
        uint64_t word = 0;

        for (unsigned k = 0; k < 8; k++)
            word |= (uint64_t)q[i + k] << k * bits;
        memcpy(out, &word, bits); /* little-endian */
    }
}

/* ---- affine ---- */

struct affine_step {
    float scale, offset;
};

/* Finds the step of the group @x of @n numbers. */
static struct affine_step affine_find(const float *x, unsigned n, float n_steps)
{
    float low = x[0], high = x[0], scale, edge, q;

    for (unsigned i = 1; i < n; i++) {
        high = high < x[i] ? x[i] : high;
        low = x[i] < low ? x[i] : low;
    }
    scale = (high - low) / n_steps;
    scale = scale < 1e-7f ? 1e-7f : scale;
    scale = fabsf(low) > fabsf(high) ? scale : -scale;
    edge = fabsf(low) > fabsf(high) ? low : high;
    q = rintf(edge / scale);
    return q == 0 ? (struct affine_step){scale, 0} : (struct affine_step){edge / q, edge};
}

static void affine_encode(unsigned bits, const float *x, uint64_t n, const struct plane_out *out)
{
    const float most = (float)((1u << bits) - 1);
    uint8_t q[GROUP_MOST];

    for (uint64_t g = 0; g < n / out->group; g++, x += out->group) {
        const struct affine_step step = affine_find(x, out->group, most);

        for (unsigned i = 0; i < out->group; i++) {
            float y = (x[i] - step.offset) / step.scale;

            y = y > 0 ? y : 0;
            y = y < most ? y : most;
            q[i] = (uint8_t)code_round(y);
        }
        affine_pack(q, out->group, bits, out->codes + g * out->group * bits / 8);
        plane_put(out->type, out->scales, g, step.scale);
        plane_put(out->type, out->offsets, g, step.offset);
    }
}

/* ---- floats ---- */

static uint8_t e2m1_from_f32(float x)
{
    static const float between[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    unsigned q = 0;

    for (size_t i = 0; i < ARRAY_SIZE(between); i++)
        q += fabsf(x) > between[i];
    return (uint8_t)(x < 0 && q > 0 ? q | 8 : q);
}

static float group_largest(const float *x, unsigned n)
{
    float largest = 0;

    for (unsigned i = 0; i < n; i++)
        largest = largest < fabsf(x[i]) ? fabsf(x[i]) : largest;
    return largest;
}

/* The next two functions write the scale of a group to @ret_byte, and return its value. If the
 * value is 0, all numbers of the group become 0. */
static float scale_power(float ratio, uint8_t *ret_byte)
{
    const int e = ratio > 0 ? (int)ceilf((float)log2((double)ratio)) : 0;

    *ret_byte = (uint8_t)(e + 127);
    return ldexpf(1, e);
}

static float scale_e4m3(float ratio, uint8_t *ret_byte)
{
    *ret_byte = e4m3_from_f32(ratio);
    return e4m3_to_f32(*ret_byte);
}

static void floats_encode(enum inf_dtype dtype, const float *x, uint64_t n,
                          const struct plane_out *out)
{
    const bool wide = dtype == INF_DTYPE_MXFP8;
    const unsigned bits = wide ? 8 : 4;
    uint8_t q[GROUP_MOST];

    for (uint64_t g = 0; g < n / out->group; g++, x += out->group) {
        const float ratio =
            plane_round(out->given, group_largest(x, out->group) / (wide ? 448.f : 6.f));
        const float scale = dtype == INF_DTYPE_NVFP4_PLANES ? scale_e4m3(ratio, &out->scales[g])
                                                            : scale_power(ratio, &out->scales[g]);

        for (unsigned i = 0; i < out->group; i++) {
            const float y = scale > 0 ? plane_round(out->given, x[i] / scale) : 0;

            q[i] = wide ? e4m3_from_f32(y) : e2m1_from_f32(y);
        }
        affine_pack(q, out->group, bits, out->codes + g * out->group * bits / 8);
    }
}

void mlx_encode_row(enum inf_dtype dtype, const float *x, uint64_t n, const struct plane_out *out)
{
    const struct planes_info *info = dtype_affine(dtype);

    assert(out->group <= GROUP_MOST && out->group % 8 == 0 && n % out->group == 0);
    if (info)
        affine_encode(info->bits, x, n, out);
    else
        floats_encode(dtype, x, n, out);
}
