/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines matrix products in plain C, as the reference for the fast kernels.
 *
 * The functions of quant/ decode the weights, prepared rows are used unchanged, and sums have
 * double precision. This code stays simple and is never tuned for speed.
 */

#include <math.h>
#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "core/half.h"
#include "quant/block.h"
#include "quant/coded.h"
#include "quant/dtype.h"

/*
 * Quantizes x ≈ d × q with d = amax / 127, where amax is the largest magnitude of a block.
 * Magnitudes are compared as bits, so that infinity is above all numbers and NaN is above infinity.
 * Blocks with infinity or NaN get d = NaN and q = 0. Blocks whose values are all below 2^-100
 * become zero, because the inverse of the scale would overflow.
 */
static void prepare_q8_ref(const float *x, uint32_t K, struct matmul_q8 *dst)
{
    for (uint32_t k = 0; k < K; k += 32, dst++) {
        uint32_t amax = 0;

        memset(dst, 0, sizeof(*dst));
        for (unsigned i = 0; i < 32; i++)
            amax = MAX(amax, half_bits_f32(x[k + i]) & 0x7fffffff);
        if (amax >= 0x7f800000) {
            dst->d = dst->s = NAN;
            continue;
        }
        if (half_from_bits_f32(amax) < 0x1p-100f)
            continue;
        const float inverse = 127 / half_from_bits_f32(amax);

        dst->d = half_from_bits_f32(amax) / 127;
        for (unsigned i = 0; i < 32; i++) {
            dst->q[i] = (int8_t)rintf(x[k + i] * inverse);
            dst->nsum[i / 16] -= dst->q[i];
        }
        dst->s = dst->d * (float)-(dst->nsum[0] + dst->nsum[1]);
    }
}

static void prepare_row8_ref(const float *x, uint32_t K, int8_t *q, struct matmul_row8 *end)
{
    uint32_t amax = 0;

    memset(q, 0, matmul_row8_bytes(K));
    for (uint32_t k = 0; k < K; k++)
        amax = MAX(amax, half_bits_f32(x[k]) & 0x7fffffff);
    *end = (struct matmul_row8){.d = NAN};
    if (amax >= 0x7f800000)
        return;
    const float most = MAX(half_from_bits_f32(amax), MATMUL_ROW8_MIN), inverse = 127 / most;

    end->d = most / 127;
    for (uint32_t k = 0; k < K; k++) {
        q[k] = (int8_t)rintf(x[k] * inverse);
        end->nsum -= q[k];
    }
}

static void bitnet_ref(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    const float factor = *(const float *)args->planes[WEIGHT_SCALES];

    for (uint32_t m = 0; m < args->M; m++) {
        const int8_t *q = (const int8_t *)args->act + m * args->act_stride;
        const struct matmul_row8 *end = (const void *)(q + matmul_row8_bytes(args->K));

        for (uint32_t p = n0; p < n1; p++) {
            const uint8_t *codes = (const uint8_t *)args->w + (size_t)(p / 4) * args->K;
            const size_t n = p / 4 + (size_t)(p % 4) * args->quarter;
            int64_t sum = 0;

            for (uint32_t k = 0; k < args->K; k++)
                sum += ((codes[k] >> 2 * (p % 4) & 3) - 1) * q[k];
            args->y[m * args->ldy + n] =
                (float)((double)sum * factor * end->d + (args->bias ? args->bias[n] : 0));
        }
    }
}

static double act_get(const uint8_t *row, enum matmul_act kind, uint32_t k)
{
    const struct matmul_q8 *b = (const struct matmul_q8 *)row + k / 32;
    const struct matmul_f16 *f = (const struct matmul_f16 *)row + k / 32;
    const struct matmul_i16 *a = (const struct matmul_i16 *)row + k / MATMUL_BLOCK;

    if (kind == MATMUL_ACT_F32)
        return ((const float *)row)[k];
    if (kind == MATMUL_ACT_BF16)
        return bf16_to_f32(((const uint16_t *)row)[k]);
    if (kind == MATMUL_ACT_F16)
        return 128.0 * f->d * f16_to_f32(f->h[k % 32]);
    if (kind == MATMUL_ACT_APART)
        return (double)a->d * a->q[matmul_apart_place(k % MATMUL_BLOCK)];
    return (double)b->d * b->q[k % 32];
}

/* Decodes a block of row @n of W, from element @k on. */
static void decode_block(const struct matmul_args *args, uint32_t n, uint32_t k, float *w)
{
    const struct dtype_info *info = dtype_info(args->dtype);
    const uint8_t *block = (const uint8_t *)args->w + n * args->row_bytes +
                           (size_t)(k / info->block_elems) * info->block_bytes;

    if (args->coded) {
        coded_decode(args->coded, args->coded_first + n, k, info->block_elems, w);
        return;
    }
    if (info->planes) {
        const size_t at =
            ((size_t)n * (args->K / args->group) + k / args->group) * plane_bytes(args->plane_type);
        const struct plane_row row = {
            .codes = block,
            .planes = {(const uint8_t *)args->planes[WEIGHT_SCALES] + at,
                       args->planes[WEIGHT_ZEROS] ? (const uint8_t *)args->planes[WEIGHT_ZEROS] + at
                                                  : NULL},
            .type = args->plane_type,
            .group = args->group,
        };

        info->planes->decode(&row, w, info->block_elems);
        return;
    }
    info->decode(block, w, info->block_elems);
}

void matmul_rows_ref(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    const struct dtype_info *info = dtype_info(args->dtype);
    float w[SUPER_ELEMS];

    for (uint32_t m = 0; m < args->M; m++) {
        const uint8_t *act = (const uint8_t *)args->act + m * args->act_stride;

        for (uint32_t n = n0; n < n1; n++) {
            double sum = args->bias ? args->bias[n] : 0;

            for (uint32_t k = 0; k < args->K; k += info->block_elems) {
                decode_block(args, n, k, w);
                for (uint32_t i = 0; i < info->block_elems; i++)
                    sum += w[i] * act_get(act, args->kind, k + i);
            }
            args->y[m * args->ldy + n] = (float)sum;
        }
    }
}

const struct matmul_ops matmul_ref = {
    .name = "ref",
    .prepare_q8 = prepare_q8_ref,
    .prepare_row8 = prepare_row8_ref,
    .bitnet = bitnet_ref,
};
