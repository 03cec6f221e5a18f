/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodes floats in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1.
 *
 * Q8_0 takes its scale from the largest magnitude. For Q4_0 and Q5_0 a short search finds the
 * scale with the least squared error, and for Q4_1 and Q5_1 the search finds a scale and a minimum
 * (quant/fit.h). The weights are then rounded with the scales that decoding will use. In formats
 * with blocks, values that are not finite count as zero.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block.h"
#include "quant/fit.h"

/* Blocks whose scales are found together. */
#define BATCH 64u

static float finite_or_zero(float x)
{
    return isfinite(x) ? x : 0.0f;
}

static void load_finite(const float *src, float *x, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        x[i] = finite_or_zero(src[i]);
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

static void pack_nibbles(const uint8_t q[32], uint8_t dst[16])
{
    for (unsigned i = 0; i < 16; i++)
        dst[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void pack_high(const uint8_t q[32], uint8_t dst[4])
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t bits;

        memcpy(&bits, q + 8 * i, sizeof(bits));
        bits = bits >> 4 & UINT64_C(0x0101010101010101);
        /* The product moves the bit of byte l to bit 56 + l. */
        dst[i] = (uint8_t)(bits * UINT64_C(0x0102040810204080) >> 56);
    }
}

void encode_q8_0(const float *src, void *dst, uint64_t n_elems)
{
    const struct fit_ops *fit = fit_best();
    uint8_t *p = dst, q[32];
    struct block_q8_0 b;

    for (uint64_t i = 0; i < n_elems; i += 32, p += sizeof(b)) {
        b.d = f16_from_f32(fit->largest(src + i, 32) / 127);
        fit->round(src + i, 32, f16_to_f32(b.d), 0, -127, 127, q);
        for (unsigned l = 0; l < 32; l++)
            b.q[l] = (int8_t)(q[l] - 127);
        memcpy(p, &b, sizeof(b));
    }
}

/* Encodes up to BATCH blocks with one signed scale each. @high: q has 5 bits, of which the highest
 * is stored outside the nibbles. */
static void encode_scaled(const float *x, const float *importance, unsigned n, bool high,
                          uint8_t *p)
{
    const struct fit_ops *fit = fit_best();
    const int lo = high ? -16 : -8, hi = high ? 15 : 7;
    float d[BATCH];
    uint8_t q[32];

    fit->scales(x, importance, 32, n, lo, hi, d);
    for (unsigned i = 0; i < n; i++) {
        struct block_q4_0 b4;
        struct block_q5_0 b5;

        b4.d = b5.d = f16_from_f32(d[i]);
        fit->round(x + 32 * i, 32, f16_to_f32(b4.d), 0, lo, hi, q);
        pack_nibbles(q, high ? b5.q : b4.q);
        pack_high(q, b5.high);
        memcpy(p + i * (high ? sizeof(b5) : sizeof(b4)), high ? (void *)&b5 : (void *)&b4,
               high ? sizeof(b5) : sizeof(b4));
    }
}

/* Subtracts the least number of a block of 32 if it is above zero, because fit->offsets() finds
 * only minima of zero or less. Returns what was subtracted. */
static float shift_block(float x[32])
{
    float lo = x[0];

    for (unsigned i = 1; i < 32; i++)
        lo = MIN(lo, x[i]);
    for (unsigned i = 0; lo > 0 && i < 32; i++)
        x[i] -= lo;
    return MAX(lo, 0.0f);
}

/* Encodes up to BATCH blocks with scale and minimum, w = d × q + m, where m can have any sign. */
static void encode_offset(const float *src, const float *importance, unsigned n, bool high,
                          uint8_t *p)
{
    const struct fit_ops *fit = fit_best();
    float x[BATCH * 32], lo[BATCH], d[BATCH], m[BATCH];
    const int hi = high ? 31 : 15;
    uint8_t q[32];

    load_finite(src, x, 32 * n);
    for (unsigned i = 0; i < n; i++)
        lo[i] = shift_block(x + 32 * i);
    fit->offsets(x, importance, FIT_EQUAL, 32, n, hi, d, m);
    for (unsigned i = 0; i < n; i++) {
        struct block_q4_1 b4;
        struct block_q5_1 b5;

        b4.d = b5.d = f16_from_f32(d[i]);
        b4.m = b5.m = f16_from_f32(lo[i] - m[i]);
        fit->round(x + 32 * i, 32, f16_to_f32(b4.d), lo[i] - f16_to_f32(b4.m), 0, hi, q);
        pack_nibbles(q, high ? b5.q : b4.q);
        pack_high(q, b5.high);
        memcpy(p + i * (high ? sizeof(b5) : sizeof(b4)), high ? (void *)&b5 : (void *)&b4,
               high ? sizeof(b5) : sizeof(b4));
    }
}

#define ENCODE_BY(stem, encode, high)                                                              \
    void encode_##stem##_by(const float *src, const float *importance, void *dst,                  \
                            uint64_t n_elems)                                                      \
    {                                                                                              \
        uint8_t *p = dst;                                                                          \
                                                                                                   \
        for (uint64_t i = 0, n; i < n_elems; i += 32 * n) {                                        \
            n = MIN((n_elems - i) / 32, (uint64_t)BATCH);                                          \
            encode(src + i, importance ? importance + i : NULL, (unsigned)n, high,                 \
                   p + i / 32 * sizeof(struct block_##stem));                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void encode_##stem(const float *src, void *dst, uint64_t n_elems)                              \
    {                                                                                              \
        encode_##stem##_by(src, NULL, dst, n_elems);                                               \
    }

ENCODE_BY(q4_0, encode_scaled, false)
ENCODE_BY(q5_0, encode_scaled, true)
ENCODE_BY(q4_1, encode_offset, false)
ENCODE_BY(q5_1, encode_offset, true)
