/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes Q1_0 and Q2_0, whose codes have 1 or 2 bits and lie in the order of the
 * weights.
 *
 * Decoded numbers have the same bits as those of llama.cpp (ggml-quants.c of August 2026). For
 * codes of 1 bit, the mean magnitude is the scale with the least squared error.
 */

#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
#include "quant/block.h"

void decode_q1_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q1_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_Q1_0_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < BLOCK_Q1_0_ELEMS; l++)
            dst[i + l] = b.q[l / 8] >> l % 8 & 1 ? d : -d;
    }
}

void decode_q2_0(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q2_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_Q2_0_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = f16_to_f32(b.d);

        for (unsigned l = 0; l < BLOCK_Q2_0_ELEMS; l++)
            dst[i + l] = (float)((b.q[l / 4] >> l % 4 * 2 & 3) - 1) * d;
    }
}

void encode_q1_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_q1_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_Q1_0_ELEMS, p += sizeof(b)) {
        float x[BLOCK_Q1_0_ELEMS];
        double sum = 0;

        fit_load(src + i, x, BLOCK_Q1_0_ELEMS);
        memset(&b, 0, sizeof(b));
        for (unsigned l = 0; l < BLOCK_Q1_0_ELEMS; l++) {
            sum += fabsf(x[l]);
            b.q[l / 8] |= (uint8_t)((x[l] >= 0) << l % 8);
        }
        b.d = fit_f16((float)(sum / BLOCK_Q1_0_ELEMS));
        memcpy(p, &b, sizeof(b));
    }
}

/* Returns the scale d for which d × q, with integers q from -2 to 1, is closest to x. The search
 * tries scales that map the largest magnitude to about -2, and for each rounding computes the scale
 * that fits best. */
static float bits_scale(const float x[BLOCK_Q2_0_ELEMS])
{
    const float extreme = fit_extreme(x, BLOCK_Q2_0_ELEMS);
    float w[BLOCK_Q2_0_ELEMS], best = 0;
    double best_gain = 0;

    fit_weights(x, NULL, BLOCK_Q2_0_ELEMS, w);
    for (int step = -3; step <= 3 && extreme != 0; step++) {
        const float inverse = (-2 + 0.3f * (float)step) / extreme;
        fit_f4 xq = fit_set4(0), qq = fit_set4(0);

        if (!isfinite(inverse))
            break;
        for (unsigned i = 0; i < BLOCK_Q2_0_ELEMS; i += 4) {
            const fit_f4 x4 = fit_load4(x + i), w4 = fit_load4(w + i);
            const fit_f4 q = fit_round4(x4 * fit_set4(inverse), -2, 1);

            xq += w4 * q * x4;
            qq += w4 * q * q;
        }
        /* With the best d = xq / qq the error is Σwx² - xq² / qq. */
        const double a = fit_sum4(xq), b = fit_sum4(qq);

        if (b > 0 && a * a / b > best_gain) {
            best_gain = a * a / b;
            best = (float)(a / b);
        }
    }
    return best;
}

void encode_q2_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_q2_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_Q2_0_ELEMS, p += sizeof(b)) {
        float x[BLOCK_Q2_0_ELEMS];

        fit_load(src + i, x, BLOCK_Q2_0_ELEMS);
        b.d = fit_f16(-bits_scale(x)); /* the codes stand for -1 … 2 */
        const float d = f16_to_f32(b.d), inverse = d != 0 ? 1 / d : 0;

        memset(b.q, 0, sizeof(b.q));
        for (unsigned l = 0; l < BLOCK_Q2_0_ELEMS; l++)
            b.q[l / 4] |= (uint8_t)((fit_round(x[l] * inverse, -1, 2) + 1) << l % 4 * 2);
        memcpy(p, &b, sizeof(b));
    }
}
