/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes IQ4_NL and IQ4_XS, whose codes are numbers in a table of 16 values.
 *
 * Decoding has the bits of the gguf Python package. The encoders try scales of both signs that map
 * the largest magnitude to about an end of the table, because the table is not symmetric. For each
 * scale they round to the nearest values, and compute the scale that then fits best.
 */

#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
#include "quant/block.h"

#define IQ4_GROUPS (SUPER_ELEMS / BLOCK_ELEMS)

static const int8_t iq4_values[16] = BLOCK_IQ4_VALUES();

/* Decodes 32 weights. */
static void iq4_decode(float d, const uint8_t q[16], float *dst)
{
    for (unsigned l = 0; l < 16; l++) {
        dst[l] = d * (float)iq4_values[q[l] & 15];
        dst[l + 16] = d * (float)iq4_values[q[l] >> 4];
    }
}

void decode_iq4_nl(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq4_nl b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        iq4_decode(f16_to_f32(b.d), b.q, dst + i);
    }
}

/* Returns the scale of group @g of IQ4_XS. */
static int iq4_scale(const struct block_iq4_xs *b, unsigned g)
{
    return ((b->low[g / 2] >> g % 2 * 4 & 15) | (b->high >> 2 * g & 3) << 4) - 32;
}

void decode_iq4_xs(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_iq4_xs b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned g = 0; g < IQ4_GROUPS; g++)
            iq4_decode(f16_to_f32(b.d) * (float)iq4_scale(&b, g), b.q + 16 * g,
                       dst + i + g * BLOCK_ELEMS);
    }
}

/* Computes for 32 elements the code of the value that is nearest to x × @inverse. */
static void iq4_round(const float x[BLOCK_ELEMS], float inverse, int32_t ret_q[BLOCK_ELEMS])
{
    memset(ret_q, 0, BLOCK_ELEMS * sizeof(*ret_q));
    for (unsigned i = 0; i + 1 < ARRAY_SIZE(iq4_values); i++) {
        const float middle = 0.5f * (float)(iq4_values[i] + iq4_values[i + 1]);

        for (unsigned l = 0; l < BLOCK_ELEMS; l++)
            ret_q[l] += x[l] * inverse > middle;
    }
}

/* Rounds with the scale 1 / @inverse, and computes the scale that then fits best. Returns how much
 * it reduces the error. */
static double iq4_gain(const float x[BLOCK_ELEMS], const float w[BLOCK_ELEMS], float inverse,
                       float *ret_d)
{
    int32_t q[BLOCK_ELEMS];
    double xv = 0, vv = 0;

    iq4_round(x, inverse, q);
    for (unsigned l = 0; l < BLOCK_ELEMS; l++) {
        const double v = iq4_values[q[l]], wv = w[l] * v;

        xv += wv * x[l];
        vv += wv * v;
    }
    *ret_d = (float)(xv / vv);
    return xv * xv / vv;
}

/* Returns the scale for which scale × value is closest to x, for 32 elements. */
static float iq4_fit(const float x[BLOCK_ELEMS], const float w[BLOCK_ELEMS])
{
    static const int8_t ends[] = {-127, 113};
    float extreme = 0, best = 0;
    double best_gain = 0;

    for (unsigned l = 0; l < BLOCK_ELEMS; l++)
        if (fabsf(x[l]) > fabsf(extreme))
            extreme = x[l];
    for (unsigned end = 0; end < ARRAY_SIZE(ends); end++)
        for (int step = -8; step <= 4; step++) {
            /* A scale that is too small clips the extreme, which is right for outliers only. */
            const float inverse = (float)ends[end] * (1 - 0.03f * (float)step) / extreme;
            float d;

            if (extreme == 0 || !isfinite(inverse))
                return best;
            const double gain = iq4_gain(x, w, inverse, &d);

            if (gain > best_gain) {
                best_gain = gain;
                best = d;
            }
        }
    /* The scale that fits best rounds other elements to other values. */
    for (unsigned round = 0; round < 2 && best != 0 && isfinite(1 / best); round++) {
        float d;

        if (iq4_gain(x, w, 1 / best, &d) < best_gain)
            break;
        best = d;
    }
    return best;
}

static void iq4_pack(const int32_t q[BLOCK_ELEMS], uint8_t ret[16])
{
    for (unsigned l = 0; l < 16; l++)
        ret[l] = (uint8_t)(q[l] | q[l + 16] << 4);
}

void encode_iq4_nl(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_iq4_nl b;

    for (uint64_t i = 0; i < n_elems; i += BLOCK_ELEMS, p += sizeof(b)) {
        float x[BLOCK_ELEMS], w[BLOCK_ELEMS];
        int32_t q[BLOCK_ELEMS];

        fit_load(src + i, x, BLOCK_ELEMS);
        fit_weights(x, BLOCK_ELEMS, w);
        b.d = fit_f16(iq4_fit(x, w));
        const float d = f16_to_f32(b.d);

        iq4_round(x, d != 0 ? 1 / d : 0, q);
        iq4_pack(q, b.q);
        memcpy(p, &b, sizeof(b));
    }
}

/* Returns the error of 32 elements that are rounded with the scale @d. */
static double iq4_error(const float *x, const float *w, float d, int32_t ret_q[BLOCK_ELEMS])
{
    double error = 0;

    iq4_round(x, d != 0 ? 1 / d : 0, ret_q);
    for (unsigned l = 0; l < BLOCK_ELEMS; l++) {
        const double e = (double)(d * (float)iq4_values[ret_q[l]]) - x[l];

        error += w[l] * e * e;
    }
    return error;
}

/* Finds the scale near @sc of 6 bits with the least error for 32 elements, and rounds them. */
static int iq4_choose(const float *x, const float *w, float d, int sc, int32_t ret_q[BLOCK_ELEMS])
{
    double best = INFINITY;
    int best_sc = 0;

    memset(ret_q, 0, BLOCK_ELEMS * sizeof(*ret_q));
    for (int i = MAX(sc - 1, -32); i <= MIN(sc + 1, 31); i++) {
        int32_t q[BLOCK_ELEMS];
        const double error = iq4_error(x, w, d * (float)i, q);

        if (error < best) {
            best = error;
            best_sc = i;
            memcpy(ret_q, q, sizeof(q));
        }
    }
    return best_sc;
}

/* Holds a super-block of IQ4_XS while it is encoded. */
struct iq4_super {
    float x[SUPER_ELEMS], w[SUPER_ELEMS];
    float d; /* as binary16 holds it */
    int sc[IQ4_GROUPS];
    int32_t q[SUPER_ELEMS];
};

/* Chooses the scale and the codes of each group near @sc[g], for the scale s->d. */
static void iq4_choose_all(struct iq4_super *s, const int sc[IQ4_GROUPS])
{
    for (unsigned g = 0; g < IQ4_GROUPS; g++) {
        const unsigned at = g * BLOCK_ELEMS;

        s->sc[g] = iq4_choose(s->x + at, s->w + at, s->d, sc[g], s->q + at);
    }
}

/* Fits the scale of the super-block to the codes. */
static void iq4_refit(struct iq4_super *s)
{
    double xv = 0, vv = 0;

    for (unsigned l = 0; l < SUPER_ELEMS; l++) {
        const double v = s->sc[l / BLOCK_ELEMS] * iq4_values[s->q[l]];

        xv += s->w[l] * v * s->x[l];
        vv += s->w[l] * v * v;
    }
    if (vv > 0 && isfinite(xv / vv))
        s->d = f16_to_f32(fit_f16((float)(xv / vv)));
}

static void iq4_encode_super(struct iq4_super *s, const float *src)
{
    float d[IQ4_GROUPS], extreme = 0;
    int sc[IQ4_GROUPS];

    fit_load(src, s->x, SUPER_ELEMS);
    for (unsigned g = 0; g < IQ4_GROUPS; g++) {
        fit_weights(s->x + g * BLOCK_ELEMS, BLOCK_ELEMS, s->w + g * BLOCK_ELEMS);
        d[g] = iq4_fit(s->x + g * BLOCK_ELEMS, s->w + g * BLOCK_ELEMS);
        if (fabsf(d[g]) > fabsf(extreme))
            extreme = d[g];
    }
    /* The largest scale becomes -32, because 6 bits have one more negative value. */
    s->d = f16_to_f32(fit_f16(extreme / -32));
    for (unsigned g = 0; g < IQ4_GROUPS; g++)
        sc[g] = s->d != 0 ? fit_round(d[g] / s->d, -32, 31) : 0;
    iq4_choose_all(s, sc);
    iq4_refit(s);
    memcpy(sc, s->sc, sizeof(sc));
    iq4_choose_all(s, sc);
}

void encode_iq4_xs(const float *src, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_iq4_xs b;
    struct iq4_super s;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        iq4_encode_super(&s, src + i);
        memset(&b, 0, sizeof(b));
        b.d = fit_f16(s.d);
        for (unsigned g = 0; g < IQ4_GROUPS; g++) {
            const unsigned sc = (unsigned)(s.sc[g] + 32);

            b.low[g / 2] |= (uint8_t)((sc & 15) << g % 2 * 4);
            b.high |= (uint16_t)((sc >> 4) << 2 * g);
            iq4_pack(s.q + g * BLOCK_ELEMS, b.q + 16 * g);
        }
        memcpy(p, &b, sizeof(b));
    }
}
