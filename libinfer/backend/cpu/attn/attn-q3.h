/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Encodes rotated heads as Q3_0 (quant/codec.h). All instruction sets use this one encoder, in
 * which the order of additions is fixed, so rotated heads of the same bits get the same codes. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/attn/attn.h"
#include "core/half.h"

/* The borders between the four magnitudes of levels: the middles between neighbors. */
#define Q3_BORDERS                                                                                 \
    {                                                                                              \
        29.5f, 62.0f, 103.0f                                                                       \
    }

/* Returns the code of the level that is nearest to @x. */
static inline uint8_t q3_nearest(float x)
{
    static const float borders[] = Q3_BORDERS;
    const float a = fabsf(x);
    const uint8_t n = (uint8_t)((a > borders[0]) + (a > borders[1]) + (a > borders[2]));

    return x < 0 ? 3 - n : 4 + n;
}

/* Chooses the codes of the run @x with the scale @scale. Returns the scale with which these codes
 * have the least mean squared error. */
static inline float q3_fit(const float *x, float scale)
{
    static const int8_t levels[8] = CODEC_Q3_LEVELS;
    const float inverse = 1 / scale;
    int32_t squares = 0;
    float sum = 0;

    for (uint32_t i = 0; i < CODEC_Q3_RUN; i++) {
        const int32_t level = levels[q3_nearest(x[i] * inverse)];

        sum += x[i] * (float)level;
        squares += level * level;
    }
    return sum / (float)squares;
}

/* Returns the scale of the run @x as it is stored, or NaN if the scale is not finite. The largest
 * level is 2.152 standard deviations of a normal distribution. */
static inline float q3_scale(const float *x)
{
    float sum = 0, scale;

    for (uint32_t i = 0; i < CODEC_Q3_RUN; i++)
        sum += x[i] * x[i];
    scale = sqrtf(sum / CODEC_Q3_RUN) * (2.152f / 127);
    if (scale >= ATTN_Q8_TINY && isfinite(scale))
        scale = q3_fit(x, scale);
    scale = f16_to_f32(f16_from_f32(scale));
    return isfinite(scale) ? scale : NAN;
}

/* Writes the codes of a run to the 48 bytes @q. */
static inline void q3_pack(uint8_t *q, const float *x, float scale)
{
    const float inverse = scale >= ATTN_Q8_TINY ? 1 / scale : 0;
    uint8_t code[CODEC_Q3_RUN];

    for (uint32_t i = 0; i < CODEC_Q3_RUN; i++)
        code[i] = q3_nearest(x[i] * inverse);
    for (uint32_t i = 0; i < CODEC_Q3_BYTES; i++) {
        const uint32_t low = code[96 + i % 16] >> i / 16 & 1;
        const uint32_t high = code[112 + i % 16] >> i / 16 & 1;

        q[i] = (uint8_t)(code[i] | low << 3 | (uint32_t)code[48 + i] << 4 | high << 7);
    }
}

/* Encodes the rotated head @x. */
static inline void q3_encode(uint8_t *q, float *scales, const float *x, uint32_t n)
{
    for (uint32_t r = 0; r < n / CODEC_Q3_RUN; r++) {
        scales[r] = q3_scale(x + r * CODEC_Q3_RUN);
        q3_pack(q + r * CODEC_Q3_BYTES, x + r * CODEC_Q3_RUN, scales[r]);
    }
}
