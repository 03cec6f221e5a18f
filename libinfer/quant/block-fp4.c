/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes MXFP4 (OCP Microscaling Formats, version 1.0, as GGUF files hold it) and
 * NVFP4 (as GGUF files hold it, in blocks of 64).
 *
 * The results have the same bits as those of the gguf Python package, except that the encoder of
 * NVFP4 finds better scales. As in that package, the scale 255 of MXFP4, which the specification
 * reserves for NaN, is a number.
 */

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
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

#define NVFP4_GROUP 16u

void decode_nvfp4(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_nvfp4 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_NVFP4_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < BLOCK_NVFP4_ELEMS; l++) {
            const unsigned g = l / NVFP4_GROUP, in_group = l % NVFP4_GROUP;
            const uint8_t q = b.q[8 * g + in_group % 8] >> in_group / 8 * 4 & 15;

            dst[i + l] = block_nvfp4_half(b.e[g]) * (float)fp4_values[q];
        }
    }
}

/* Returns for each number in @x, which is not negative, the nearest value in fp4_values (twice the
 * values of FP4): the sum of the steps between neighbouring values whose middle the number exceeds.
 */
static inline fit_f4 nvfp4_nearest(fit_f4 x)
{
    fit_f4 value = fit_set4(0);

    for (unsigned i = 0; i < 7; i++) {
        const float middle = 0.5f * (float)(fp4_values[i] + fp4_values[i + 1]);
        const float distance = (float)(fp4_values[i + 1] - fp4_values[i]);

        value += fit_where4(x > fit_set4(middle), fit_set4(distance));
    }
    return value;
}

/* Returns the squared error of 16 magnitudes that are rounded with the scale @e. */
static double nvfp4_error(const float x[NVFP4_GROUP], uint8_t e)
{
    const float d = block_nvfp4_half(e);
    const fit_f4 inverse = fit_set4(d > 0 ? 1 / d : 0);
    fit_f4 error = fit_set4(0);

    for (unsigned l = 0; l < NVFP4_GROUP; l += 4) {
        const fit_f4 x4 = fit_load4(x + l);
        const fit_f4 miss = fit_set4(d) * nvfp4_nearest(x4 * inverse) - x4;

        error += miss * miss;
    }
    return fit_sum4(error);
}

/* Returns the scale of the least error for 16 elements. The largest values of FP4 are 6 and 4. The
 * search begins with scales that clip the largest magnitude of the elements a little, so that it
 * becomes 6, and ends with scales that map it to 4. */
static uint8_t nvfp4_choose(const float x[NVFP4_GROUP])
{
    float magnitude[NVFP4_GROUP], amax = 0;
    double best = INFINITY;
    uint8_t best_e = 0;

    for (unsigned l = 0; l < NVFP4_GROUP; l++) {
        magnitude[l] = fabsf(x[l]);
        amax = MAX(amax, magnitude[l]);
    }
    const int first = e4m3_from_f32(amax / 6);

    for (int e = MAX(first - 2, 0); e <= MIN(first + 4, 126) && amax > 0; e++) {
        const double error = nvfp4_error(magnitude, (uint8_t)e);

        if (error < best) {
            best = error;
            best_e = (uint8_t)e;
        }
    }
    return best_e;
}

/* Returns the code of the value that is nearest to @x. */
static uint8_t nvfp4_code(float x)
{
    uint8_t code = 0;

    for (unsigned i = 0; i < 7; i++)
        code += fabsf(x) > 0.5f * (float)(fp4_values[i] + fp4_values[i + 1]);
    return code > 0 && x < 0 ? code | 8 : code;
}

void encode_nvfp4(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_nvfp4 b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_NVFP4_ELEMS, p += sizeof(b)) {
        float x[BLOCK_NVFP4_ELEMS];

        fit_load(src + i, x, BLOCK_NVFP4_ELEMS);
        for (unsigned g = 0; g < BLOCK_NVFP4_ELEMS / NVFP4_GROUP; g++) {
            const float *group = x + g * NVFP4_GROUP;

            b.e[g] = nvfp4_choose(group);
            const float d = block_nvfp4_half(b.e[g]), inverse = d > 0 ? 1 / d : 0;

            for (unsigned l = 0; l < 8; l++)
                b.q[8 * g + l] = (uint8_t)(nvfp4_code(group[l] * inverse) |
                                           nvfp4_code(group[l + 8] * inverse) << 4);
        }
        memcpy(p, &b, sizeof(b));
    }
}
