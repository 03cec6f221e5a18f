/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes IQ4_NL and IQ4_XS, whose codes are indices of a table of 16 values.
 *
 * Decoded numbers have the same bits as those of the gguf Python package. The encoders find
 * the scales of groups with fit->values() (quant/fit.h).
 */

#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
#include "quant/block.h"
#include "quant/fit.h"

/* Number of groups whose scales are found together. */
#define IQ4_BATCH 64u

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

/* Returns for each number in @x the nearest value of the table: the lowest value, plus the steps
 * between neighbouring values whose middle the number exceeds. */
static inline fit_f4 iq4_nearest(fit_f4 x)
{
    fit_f4 value = fit_set4((float)iq4_values[0]);

    for (unsigned i = 0; i + 1 < ARRAY_SIZE(iq4_values); i++) {
        const float middle = 0.5f * (float)(iq4_values[i] + iq4_values[i + 1]);
        const float distance = (float)(iq4_values[i + 1] - iq4_values[i]);

        value += fit_where4(x > fit_set4(middle), fit_set4(distance));
    }
    return value;
}

/* Returns the table for fit->values(). */
static struct fit_table iq4_table(void)
{
    struct fit_table t;

    for (unsigned i = 0; i < ARRAY_SIZE(t.value); i++)
        t.value[i] = (float)iq4_values[i];
    for (unsigned i = 0; i < ARRAY_SIZE(t.middle); i++)
        t.middle[i] = 0.5f * (t.value[i] + t.value[i + 1]);
    return t;
}

/* Loads @n groups of 32 elements, and finds their weights and scales. */
static void iq4_load(const float *src, const float *importance, unsigned n, float *x, float *w,
                     float *d)
{
    const struct fit_table table = iq4_table();

    fit_load(src, x, n * BLOCK_ELEMS);
    for (unsigned i = 0; i < n * BLOCK_ELEMS; i += BLOCK_ELEMS)
        fit_weights(x + i, importance ? importance + i : NULL, BLOCK_ELEMS, w + i);
    fit_best()->values(x, w, &table, n, d);
}

/* Returns for each number in @x the code of the nearest value: how many middles between
 * neighbouring values the number exceeds. */
static inline fit_i4 iq4_codes(fit_f4 x)
{
    fit_i4 codes = {0};

    for (unsigned i = 0; i + 1 < ARRAY_SIZE(iq4_values); i++)
        codes -= x > fit_set4(0.5f * (float)(iq4_values[i] + iq4_values[i + 1]));
    return codes;
}

/* Rounds 32 elements with the scale @d. */
static void iq4_pack(const float x[BLOCK_ELEMS], float d, uint8_t ret[16])
{
    const fit_f4 inverse = fit_set4(d != 0 ? 1 / d : 0);

    for (unsigned l = 0; l < 16; l += 4) {
        const fit_i4 codes =
            iq4_codes(fit_load4(x + l) * inverse) | iq4_codes(fit_load4(x + l + 16) * inverse) << 4;

        for (unsigned i = 0; i < 4; i++)
            ret[l + i] = (uint8_t)codes[i];
    }
}

void encode_iq4_nl_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    float x[IQ4_BATCH * BLOCK_ELEMS], w[IQ4_BATCH * BLOCK_ELEMS], d[IQ4_BATCH];
    uint8_t *p = dst;
    struct block_iq4_nl b;

    for (uint64_t i = 0, n; i < n_elems; i += n * BLOCK_ELEMS) {
        n = MIN((n_elems - i) / BLOCK_ELEMS, (uint64_t)IQ4_BATCH);
        iq4_load(src + i, importance ? importance + i : NULL, (unsigned)n, x, w, d);
        for (uint64_t g = 0; g < n; g++, p += sizeof(b)) {
            b.d = fit_f16(d[g]);
            iq4_pack(x + g * BLOCK_ELEMS, f16_to_f32(b.d), b.q);
            memcpy(p, &b, sizeof(b));
        }
    }
}

void encode_iq4_nl(const float *src, void *dst, uint64_t n_elems)
{
    encode_iq4_nl_by(src, NULL, dst, n_elems);
}

/* Returns the error of 32 elements that are rounded with the scale @d. */
static double iq4_error(const float *x, const float *w, float d)
{
    const fit_f4 inverse = fit_set4(d != 0 ? 1 / d : 0);
    fit_f4 error = fit_set4(0);

    for (unsigned l = 0; l < BLOCK_ELEMS; l += 4) {
        const fit_f4 x4 = fit_load4(x + l);
        const fit_f4 e = fit_set4(d) * iq4_nearest(x4 * inverse) - x4;

        error += fit_load4(w + l) * e * e;
    }
    return fit_sum4(error);
}

/* Finds the 6-bit scale near @sc with the least error for 32 elements. */
static int iq4_choose(const float *x, const float *w, float d, int sc)
{
    double best = INFINITY;
    int best_sc = 0;

    for (int i = MAX(sc - 1, -32); i <= MIN(sc + 1, 31); i++) {
        const double error = iq4_error(x, w, d * (float)i);

        if (error < best) {
            best = error;
            best_sc = i;
        }
    }
    return best_sc;
}

/* Holds a super-block of IQ4_XS while it is encoded. */
struct iq4_super {
    float x[SUPER_ELEMS], w[SUPER_ELEMS];
    float d; /* as binary16 holds it */
    int sc[IQ4_GROUPS];
};

/* Chooses the scale of each group near @sc[g], for the scale s->d. */
static void iq4_choose_all(struct iq4_super *s, const int sc[IQ4_GROUPS])
{
    for (unsigned g = 0; g < IQ4_GROUPS; g++) {
        const unsigned at = g * BLOCK_ELEMS;

        s->sc[g] = iq4_choose(s->x + at, s->w + at, s->d, sc[g]);
    }
}

/* Fits the scale of the super-block to the values that its elements are rounded to. */
static void iq4_refit(struct iq4_super *s)
{
    double xv = 0, vv = 0;

    for (unsigned g = 0; g < IQ4_GROUPS; g++) {
        const float d = s->d * (float)s->sc[g];
        const double sc = s->sc[g];
        fit_f4 a = fit_set4(0), b = fit_set4(0);

        for (unsigned l = g * BLOCK_ELEMS; l < (g + 1) * BLOCK_ELEMS; l += 4) {
            const fit_f4 x4 = fit_load4(s->x + l), w4 = fit_load4(s->w + l);
            const fit_f4 v = iq4_nearest(x4 * fit_set4(d != 0 ? 1 / d : 0));

            a += w4 * v * x4;
            b += w4 * v * v;
        }
        xv += sc * fit_sum4(a);
        vv += sc * sc * fit_sum4(b);
    }
    if (vv > 0 && isfinite(xv / vv))
        s->d = f16_to_f32(fit_f16((float)(xv / vv)));
}

static void iq4_encode_super(struct iq4_super *s, const float *src, const float *importance)
{
    float d[IQ4_GROUPS];
    int sc[IQ4_GROUPS];

    iq4_load(src, importance, IQ4_GROUPS, s->x, s->w, d);
    /* The largest scale becomes -32, because 6 bits have one more negative value. */
    s->d = f16_to_f32(fit_f16(fit_extreme(d, IQ4_GROUPS) / -32));
    for (unsigned g = 0; g < IQ4_GROUPS; g++)
        sc[g] = s->d != 0 ? fit_round(d[g] / s->d, -32, 31) : 0;
    iq4_choose_all(s, sc);
    iq4_refit(s);
    memcpy(sc, s->sc, sizeof(sc));
    iq4_choose_all(s, sc);
}

void encode_iq4_xs_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct block_iq4_xs b;
    struct iq4_super s;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        iq4_encode_super(&s, src + i, importance ? importance + i : NULL);
        memset(&b, 0, sizeof(b));
        b.d = fit_f16(s.d);
        for (unsigned g = 0; g < IQ4_GROUPS; g++) {
            const unsigned sc = (unsigned)(s.sc[g] + 32);

            b.low[g / 2] |= (uint8_t)((sc & 15) << g % 2 * 4);
            b.high |= (uint16_t)((sc >> 4) << 2 * g);
            iq4_pack(s.x + g * BLOCK_ELEMS, s.d * (float)s.sc[g], b.q + 16 * g);
        }
        memcpy(p, &b, sizeof(b));
    }
}

void encode_iq4_xs(const float *src, void *dst, uint64_t n_elems)
{
    encode_iq4_xs_by(src, NULL, dst, n_elems);
}
