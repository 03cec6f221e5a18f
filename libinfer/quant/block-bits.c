/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes Q1_0 and Q2_0, whose codes have 1 or 2 bits and lie in the order of the
 * weights.
 *
 * Decoding has the bits of llama.cpp (ggml-quants.c of August 2026). For codes of 1 bit, the mean
 * magnitude is the scale with the least squared error.
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

void encode_q2_0(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_q2_0 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_Q2_0_ELEMS, p += sizeof(b)) {
        float x[BLOCK_Q2_0_ELEMS], w[BLOCK_Q2_0_ELEMS];

        fit_load(src + i, x, BLOCK_Q2_0_ELEMS);
        fit_weights(x, BLOCK_Q2_0_ELEMS, w);
        /* The codes stand for -1 … 2; the fit needs the longer side below 0. */
        b.d = fit_f16(-fit_scale(x, w, BLOCK_Q2_0_ELEMS, -2, 1));
        const float d = f16_to_f32(b.d), inverse = d != 0 ? 1 / d : 0;

        memset(b.q, 0, sizeof(b.q));
        for (unsigned l = 0; l < BLOCK_Q2_0_ELEMS; l++)
            b.q[l / 4] |= (uint8_t)((fit_round(x[l] * inverse, -1, 2) + 1) << l % 4 * 2);
        memcpy(p, &b, sizeof(b));
    }
}
