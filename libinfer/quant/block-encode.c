/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodes floats into the stored formats.
 *
 * Q8_0 takes its scale from the largest magnitude. For the other formats with one scale per block,
 * a short search finds the scale with the least squared error. The search tries scales that map the
 * value of the largest magnitude to about the end of the range, and for each rounding computes the
 * scale that fits best. For formats with a scale and a minimum, the search finds both. In the K
 * formats the scales of the groups are then rounded to a few bits, and the weights are rounded
 * again with the scales that decoding will use. Except in Q4_1 and Q5_1, the error of a weight x
 * counts in proportion to |x| plus the root mean square of the block, because large weights matter
 * more in products. Values that are not finite count as zero.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
#include "quant/block.h"

static float f16_round(float x)
{
    return f16_to_f32(f16_from_f32(x));
}

void encode_f32(const float *src, void *dst, uint64_t n_elems)
{
    memcpy(dst, src, n_elems * sizeof(float));
}

void encode_f16(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;

    for (uint64_t i = 0; i < n_elems; i++) {
        const uint16_t h = f16_from_f32(src[i]);

        memcpy(p + 2 * i, &h, sizeof(h));
    }
}

void encode_bf16(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;

    for (uint64_t i = 0; i < n_elems; i++) {
        const uint16_t h = bf16_from_f32(src[i]);

        memcpy(p + 2 * i, &h, sizeof(h));
    }
}

/* Rounds a block of 32 with one signed scale. @ret_q receives q - lo. */
static uint16_t encode_scaled(const float *src, int lo, int hi, uint8_t ret_q[32])
{
    float x[32], w[32];

    fit_load(src, x, 32);
    fit_weights(x, 32, w);

    const uint16_t bits = f16_from_f32(fit_scale(x, w, 32, lo, hi, 1));
    const float d = f16_to_f32(bits), inverse = d != 0 ? 1 / d : 0;

    for (unsigned i = 0; i < 32; i++)
        ret_q[i] = (uint8_t)(fit_round(x[i] * inverse, lo, hi) - lo);
    return bits;
}

/* Rounds a block of 32 with scale and offset, w = d × q + m, where m can have any sign. */
static void encode_offset(const float *src, int hi, uint16_t *ret_d, uint16_t *ret_m,
                          uint8_t ret_q[32])
{
    float x[32], w[32], lo_x, d, m;

    fit_load(src, x, 32);
    lo_x = x[0];
    for (unsigned i = 1; i < 32; i++)
        lo_x = MIN(lo_x, x[i]);
    for (unsigned i = 0; i < 32; i++)
        w[i] = 1;
    /* The fit needs a minimum of zero or less. */
    if (lo_x > 0)
        for (unsigned i = 0; i < 32; i++)
            x[i] -= lo_x;
    fit_affine(x, w, 32, hi, 1, &d, &m);
    *ret_d = f16_from_f32(d);
    *ret_m = f16_from_f32(lo_x > 0 ? lo_x - m : -m);

    const float dr = f16_to_f32(*ret_d), mr = f16_to_f32(*ret_m) - (lo_x > 0 ? lo_x : 0);

    for (unsigned i = 0; i < 32; i++)
        ret_q[i] = (uint8_t)(dr > 0 ? fit_round((x[i] - mr) / dr, 0, hi) : 0);
}

static void pack_nibbles(const uint8_t q[32], uint8_t dst[16])
{
    for (unsigned i = 0; i < 16; i++)
        dst[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void pack_high(const uint8_t q[32], uint8_t dst[4])
{
    memset(dst, 0, 4);
    for (unsigned i = 0; i < 32; i++)
        dst[i / 8] |= (uint8_t)((q[i] >> 4 & 1) << i % 8);
}

void encode_q8_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_q8_0 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        float x[32], amax = 0;

        fit_load(src + i, x, 32);
        for (unsigned l = 0; l < 32; l++)
            amax = MAX(amax, fabsf(x[l]));
        b.d = f16_from_f32(amax / 127);
        const float d = f16_to_f32(b.d), inverse = d > 0 ? 1 / d : 0;

        for (unsigned l = 0; l < 32; l++)
            b.q[l] = (int8_t)fit_round(x[l] * inverse, -127, 127);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q4_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[32];
    struct block_q4_0 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        b.d = encode_scaled(src + i, -8, 7, q);
        pack_nibbles(q, b.q);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q4_1(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[32];
    struct block_q4_1 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        encode_offset(src + i, 15, &b.d, &b.m, q);
        pack_nibbles(q, b.q);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q5_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[32];
    struct block_q5_0 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        b.d = encode_scaled(src + i, -16, 15, q);
        pack_nibbles(q, b.q);
        pack_high(q, b.high);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q5_1(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[32];
    struct block_q5_1 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        encode_offset(src + i, 31, &b.d, &b.m, q);
        pack_nibbles(q, b.q);
        pack_high(q, b.high);
        memcpy(p, &b, sizeof(b));
    }
}

/* Rounds a super-block to d × sc × q - dmin × mn with q up to @hi. */
static void encode_groups(const float *src, int hi, uint16_t *ret_d, uint16_t *ret_dmin,
                          uint8_t ret_scales[12], uint8_t ret_q[256])
{
    float x[256], w[32], d[8], m[8], max_d = 0, max_m = 0;

    fit_load(src, x, 256);
    for (unsigned g = 0; g < 8; g++) {
        fit_weights(x + 32 * g, 32, w);
        fit_affine(x + 32 * g, w, 32, hi, 1, &d[g], &m[g]);
        max_d = MAX(max_d, d[g]);
        max_m = MAX(max_m, m[g]);
    }
    *ret_d = f16_from_f32(max_d / 63);
    *ret_dmin = f16_from_f32(max_m / 63);
    const float dr = f16_to_f32(*ret_d), mr = f16_to_f32(*ret_dmin);

    memset(ret_scales, 0, 12);
    for (unsigned g = 0; g < 8; g++) {
        const int sc = dr > 0 ? fit_round(d[g] / dr, 0, 63) : 0;
        const int mn = mr > 0 ? fit_round(m[g] / mr, 0, 63) : 0;
        const float dg = dr * (float)sc, mg = mr * (float)mn;

        block_k_set_scale(ret_scales, g, (uint8_t)sc, (uint8_t)mn);
        for (unsigned i = 32 * g; i < 32 * (g + 1); i++)
            ret_q[i] = (uint8_t)(dg > 0 ? fit_round((x[i] + mg) / dg, 0, hi) : 0);
    }
}

void encode_q4_k(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[256];
    struct block_q4_k b;

    for (uint64_t i = 0; i < n_elems; i += 256, p += sizeof(b)) {
        encode_groups(src + i, 15, &b.d, &b.dmin, b.scales, q);
        for (unsigned l = 0; l < 128; l++) {
            const unsigned at = l / 32 * 64 + l % 32;

            b.q[l] = (uint8_t)(q[at] | q[at + 32] << 4);
        }
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q5_k(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[256];
    struct block_q5_k b;

    for (uint64_t i = 0; i < n_elems; i += 256, p += sizeof(b)) {
        encode_groups(src + i, 31, &b.d, &b.dmin, b.scales, q);
        memset(b.high, 0, sizeof(b.high));
        for (unsigned l = 0; l < 128; l++) {
            const unsigned at = l / 32 * 64 + l % 32;

            b.q[l] = (uint8_t)((q[at] & 15) | (q[at + 32] & 15) << 4);
        }
        for (unsigned l = 0; l < 256; l++)
            b.high[l % 32] |= (uint8_t)((q[l] >> 4) << l / 32);
        memcpy(p, &b, sizeof(b));
    }
}

void encode_q6_k(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst, q[256];
    struct block_q6_k b;

    for (uint64_t i = 0; i < n_elems; i += 256, p += sizeof(b)) {
        float x[256], w[16], d[16], extreme = 0;

        fit_load(src + i, x, 256);
        for (unsigned g = 0; g < 16; g++) {
            fit_weights(x + 16 * g, 16, w);
            d[g] = fit_scale(x + 16 * g, w, 16, -32, 31, 1);
            if (fabsf(d[g]) > fabsf(extreme))
                extreme = d[g];
        }
        /* The largest scale becomes -128, because 8 bits have one more negative value. */
        b.d = f16_from_f32(extreme / -128);
        const float dr = f16_round(extreme / -128);

        for (unsigned g = 0; g < 16; g++) {
            b.scales[g] = (int8_t)(dr != 0 ? fit_round(d[g] / dr, -128, 127) : 0);
            const float dg = dr * (float)b.scales[g];

            for (unsigned l = 16 * g; l < 16 * (g + 1); l++)
                q[l] = (uint8_t)((dg != 0 ? fit_round(x[l] / dg, -32, 31) : 0) + 32);
        }
        memset(b.high, 0, sizeof(b.high));
        memset(b.q, 0, sizeof(b.q));
        for (unsigned l = 0; l < 256; l++) {
            const unsigned half = l / 128, quarter = l % 128 / 32, i_byte = l % 32;

            b.q[64 * half + 32 * (quarter % 2) + i_byte] |=
                (uint8_t)((q[l] & 15) << quarter / 2 * 4);
            b.high[32 * half + i_byte] |= (uint8_t)((q[l] >> 4) << 2 * quarter);
        }
        memcpy(p, &b, sizeof(b));
    }
}
