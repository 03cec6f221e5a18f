/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodes floats in Q4_K, Q5_K and Q6_K.
 *
 * A search finds the scale of each group, or its scale and minimum, with the least squared error
 * (quant/fit.h). The scales are rounded to a few bits, and then the weights are rounded with the
 * scales that decoding will use. Values that are not finite count as zero.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block.h"
#include "quant/fit.h"

/* Super-blocks whose scales are found together. */
#define BATCH 8u

static int round_scale(float x, int lo, int hi)
{
    return (int)lrintf(MIN(MAX(x, (float)lo), (float)hi));
}

/* The scales and minima of the groups of a batch. */
struct groups {
    uint16_t d[BATCH], dmin[BATCH];             /* of the super-blocks, in binary16 */
    float step_d[8 * BATCH], step_m[8 * BATCH]; /* the same as floats, for each group */
    float sc[8 * BATCH], mn[8 * BATCH];         /* integers from 0 to 63 */
};

/* Rounds the best scales and minima @d and @m of the 8 groups of super-block @i to integers. */
static void round_groups(struct groups *all, uint64_t i, const float *d, const float *m)
{
    float max_d = 0, max_m = 0;

    for (unsigned g = 0; g < 8; g++) {
        max_d = MAX(max_d, d[g]);
        max_m = MAX(max_m, m[g]);
    }
    all->d[i] = f16_from_f32(max_d / 63);
    all->dmin[i] = f16_from_f32(max_m / 63);
    for (unsigned g = 0; g < 8; g++) {
        const float dr = f16_to_f32(all->d[i]), mr = f16_to_f32(all->dmin[i]);

        all->step_d[8 * i + g] = dr;
        all->step_m[8 * i + g] = mr;
        all->sc[8 * i + g] = dr > 0 ? (float)round_scale(d[g] / dr, 0, 63) : 0;
        all->mn[8 * i + g] = mr > 0 ? (float)round_scale(m[g] / mr, 0, 63) : 0;
    }
}

/* Rounds the numbers of super-block @i. */
static void encode_groups(const struct groups *all, uint64_t i, const float *x, int hi,
                          uint8_t ret_scales[12], uint8_t ret_q[256])
{
    memset(ret_scales, 0, 12);
    for (unsigned g = 0; g < 8; g++) {
        const float sc = all->sc[8 * i + g], mn = all->mn[8 * i + g];

        block_k_set_scale(ret_scales, g, (uint8_t)sc, (uint8_t)mn);
        fit_best()->round(x + 32 * g, 32, all->step_d[8 * i + g] * sc, all->step_m[8 * i + g] * mn,
                          0, hi, ret_q + 32 * g);
    }
}

static void pack_pairs(const uint8_t q[256], uint8_t dst[128])
{
    for (unsigned c = 0; c < 4; c++)
        for (unsigned i = 0; i < 32; i++)
            dst[32 * c + i] = (uint8_t)((q[64 * c + i] & 15) | (q[64 * c + 32 + i] & 15) << 4);
}

static void encode_q4_k_block(const struct groups *all, uint64_t i, const float *x, uint8_t *p)
{
    struct block_q4_k b = {.d = all->d[i], .dmin = all->dmin[i]};
    uint8_t q[256];

    encode_groups(all, i, x, 15, b.scales, q);
    pack_pairs(q, b.q);
    memcpy(p, &b, sizeof(b));
}

static void encode_q5_k_block(const struct groups *all, uint64_t i, const float *x, uint8_t *p)
{
    struct block_q5_k b = {.d = all->d[i], .dmin = all->dmin[i]};
    uint8_t q[256];

    encode_groups(all, i, x, 31, b.scales, q);
    pack_pairs(q, b.q);
    for (unsigned g = 0; g < 8; g++)
        for (unsigned j = 0; j < 32; j++)
            b.high[j] |= (uint8_t)((q[32 * g + j] >> 4) << g);
    memcpy(p, &b, sizeof(b));
}

/* Encodes super-blocks with a scale and a minimum for each group of 32. */
static void encode_offsets(const float *src, const float *importance, int hi, uint8_t *p,
                           uint64_t block_bytes, uint64_t n_elems,
                           void (*encode)(const struct groups *all, uint64_t i, const float *x,
                                          uint8_t *p))
{
    float d[8 * BATCH], m[8 * BATCH];
    struct groups all;

    for (uint64_t i = 0, n; i < n_elems; i += 256 * n) {
        const float *imp = importance ? importance + i : NULL;

        n = MIN((n_elems - i) / 256, (uint64_t)BATCH);
        fit_best()->offsets(src + i, imp, FIT_BY_SIZE, 32, 8 * n, hi, d, m);
        for (uint64_t j = 0; j < n; j++)
            round_groups(&all, j, d + 8 * j, m + 8 * j);
        fit_best()->refine(src + i, imp, FIT_BY_SIZE, 32, 8 * n, hi, all.step_d, all.step_m, all.sc,
                           all.mn);
        for (uint64_t j = 0; j < n; j++, p += block_bytes)
            encode(&all, j, src + i + 256 * j, p);
    }
}

void encode_q4_k_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    encode_offsets(src, importance, 15, dst, sizeof(struct block_q4_k), n_elems, encode_q4_k_block);
}

void encode_q4_k(const float *src, void *dst, uint64_t n_elems)
{
    encode_q4_k_by(src, NULL, dst, n_elems);
}

void encode_q5_k_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    encode_offsets(src, importance, 31, dst, sizeof(struct block_q5_k), n_elems, encode_q5_k_block);
}

void encode_q5_k(const float *src, void *dst, uint64_t n_elems)
{
    encode_q5_k_by(src, NULL, dst, n_elems);
}

static void pack_q6_k(const uint8_t q[256], struct block_q6_k *b)
{
    for (unsigned half = 0; half < 2; half++)
        for (unsigned i = 0; i < 32; i++) {
            const uint8_t *from = q + 128 * half + i;

            b->q[64 * half + i] = (uint8_t)((from[0] & 15) | (from[64] & 15) << 4);
            b->q[64 * half + 32 + i] = (uint8_t)((from[32] & 15) | (from[96] & 15) << 4);
            b->high[32 * half + i] = (uint8_t)(from[0] >> 4 | (from[32] >> 4) << 2 |
                                               (from[64] >> 4) << 4 | (from[96] >> 4) << 6);
        }
}

static void encode_q6_k_block(const float *x, const float *d, uint8_t *p)
{
    struct block_q6_k b;
    float extreme = 0;
    uint8_t q[256];

    for (unsigned g = 0; g < 16; g++)
        if (fabsf(d[g]) > fabsf(extreme))
            extreme = d[g];
    /* The largest scale becomes -128, because 8 bits have one more negative value. */
    b.d = f16_from_f32(extreme / -128);
    const float dr = f16_to_f32(b.d);

    for (unsigned g = 0; g < 16; g++) {
        b.scales[g] = (int8_t)(dr != 0 ? round_scale(d[g] / dr, -128, 127) : 0);
        fit_best()->round(x + 16 * g, 16, dr * (float)b.scales[g], 0, -32, 31, q + 16 * g);
    }
    pack_q6_k(q, &b);
    memcpy(p, &b, sizeof(b));
}

void encode_q6_k_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    float d[16 * BATCH];

    for (uint64_t i = 0, n; i < n_elems; i += 256 * n) {
        n = MIN((n_elems - i) / 256, (uint64_t)BATCH);
        fit_best()->scales(src + i, importance ? importance + i : NULL, 16, 16 * n, -32, 31, d);
        for (uint64_t j = 0; j < n; j++, p += sizeof(struct block_q6_k))
            encode_q6_k_block(src + i + 256 * j, d + 16 * j, p);
    }
}

void encode_q6_k(const float *src, void *dst, uint64_t n_elems)
{
    encode_q6_k_by(src, NULL, dst, n_elems);
}
