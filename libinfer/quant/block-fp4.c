/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes MXFP4 (OCP Microscaling Formats, version 1.0, as GGUF files hold it).
 *
 * The results have the same bits as those of the gguf Python package. As in that package, the
 * scale 255, which the specification reserves for NaN, is a number.
 */

#include <math.h>
#include <string.h>

#include "core/macros.h"
#include "quant/block.h"

static const int8_t fp4_values[16] = BLOCK_FP4_VALUES;

void decode_mxfp4(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_mxfp4 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        const float d = block_e8m0_half(b.e);

        for (unsigned l = 0; l < 16; l++) {
            dst[i + l] = d * (float)fp4_values[b.q[l] & 15];
            dst[i + l + 16] = d * (float)fp4_values[b.q[l] >> 4];
        }
    }
}

/* Returns the first code whose value times @d is nearest to @x. */
static uint8_t fp4_nearest(float x, float d)
{
    float best_error = fabsf(x);
    uint8_t best = 0;

    for (uint8_t i = 1; i < 16; i++) {
        const float error = fabsf((float)fp4_values[i] * d - x);

        if (error < best_error) {
            best = i;
            best_error = error;
        }
    }
    return best;
}

/* Returns the scale that maps the largest magnitude @amax to 4 … 8. The largest value is 6. */
static uint8_t fp4_scale(float amax)
{
    return amax > 0 ? (uint8_t)MAX(floorf(log2f(amax)) - 2 + 127, 0.0f) : 0;
}

void encode_mxfp4(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_mxfp4 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        float x[BLOCK_ELEMS], amax = 0;

        for (unsigned l = 0; l < BLOCK_ELEMS; l++) {
            x[l] = isfinite(src[i + l]) ? src[i + l] : 0;
            amax = MAX(amax, fabsf(x[l]));
        }
        b.e = fp4_scale(amax);
        const float d = block_e8m0_half(b.e);

        for (unsigned l = 0; l < 16; l++)
            b.q[l] = (uint8_t)(fp4_nearest(x[l], d) | fp4_nearest(x[l + 16], d) << 4);
        memcpy(p, &b, sizeof(b));
    }
}
