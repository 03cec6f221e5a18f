/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes and encodes Q2_K and Q3_K, whose super-blocks have 16 groups of 16 weights.
 *
 * Decoded numbers have the same bits as those of the gguf Python package. The encoders first fit
 * each group by itself (fit.h). Then they round the scales of the groups to a few bits, try the
 * neighbors of each rounded scale, and fit the scales of the super-block to the codes that were
 * found. Last, they try the neighbors again.
 */

#include <string.h>

#include "core/half.h"
#include "core/macros.h"
#include "quant/block-fit.h"
#include "quant/block.h"
#include "quant/fit.h"

#define GROUPS 16u /* in a super-block */
#define GROUP  16u /* weights in a group */

/* Returns the 2 bits of weight @l. */
static int two_bits(const uint8_t q[64], unsigned l)
{
    return q[l / 128 * 32 + l % 32] >> l % 128 / 32 * 2 & 3;
}

static void put_two_bits(uint8_t q[64], unsigned l, int bits)
{
    q[l / 128 * 32 + l % 32] |= (uint8_t)(bits << l % 128 / 32 * 2);
}

void decode_q2_k(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q2_k b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            const uint8_t scale = b.scales[l / GROUP];
            const float d = f16_to_f32(b.d) * (float)(scale & 15);
            const float m = f16_to_f32(b.dmin) * (float)(scale >> 4);

            dst[i + l] = d * (float)two_bits(b.q, l) - m;
        }
    }
}

/* Returns the scale of group @g of Q3_K, plus 32. */
static int k_scale6(const uint8_t scales[12], unsigned g)
{
    return (scales[g % 8] >> g / 8 * 4 & 15) | (scales[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

static void put_k_scale6(uint8_t scales[12], unsigned g, int scale)
{
    scales[g % 8] |= (uint8_t)((scale & 15) << g / 8 * 4);
    scales[8 + g % 4] |= (uint8_t)((scale >> 4) << g / 4 * 2);
}

void decode_q3_k(const void *src, float *dst, uint64_t n_elems)
{
    const uint8_t *p = src;
    struct block_q3_k b;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(b)) {
        memcpy(&b, p, sizeof(b));
        for (unsigned l = 0; l < SUPER_ELEMS; l++) {
            const float d = f16_to_f32(b.d) * (float)(k_scale6(b.scales, l / GROUP) - 32);
            const int high = b.high[l % 32] >> l / 32 & 1;

            dst[i + l] = d * (float)((two_bits(b.q, l) | high << 2) - 4);
        }
    }
}

/* Holds a super-block while it is encoded: w = d × sc[g] × q - m × mn[g]. */
struct k_fit {
    float x[SUPER_ELEMS], w[SUPER_ELEMS];
    float d, m; /* as binary16 holds them */
    int sc[GROUPS], mn[GROUPS];
    float q[SUPER_ELEMS]; /* integers */
    float lo, hi;         /* the range of q */
};

static void k_load(struct k_fit *f, const float *src, const float *importance, float lo, float hi)
{
    fit_load(src, f->x, SUPER_ELEMS);
    for (unsigned at = 0; at < SUPER_ELEMS; at += GROUP)
        fit_weights(f->x + at, importance ? importance + at : NULL, GROUP, f->w + at);
    f->lo = lo;
    f->hi = hi;
}

/* Rounds the weights of group @g with the scale @sc and the minimum @mn. Returns the error. */
static double k_round(const struct k_fit *f, unsigned g, int sc, int mn, float ret_q[GROUP])
{
    const float d = f->d * (float)sc, m = f->m * (float)mn, inverse = d != 0 ? 1 / d : 0;
    const float *x = f->x + g * GROUP, *w = f->w + g * GROUP;
    fit_f4 error = fit_set4(0);

    for (unsigned l = 0; l < GROUP; l += 4) {
        const fit_f4 x4 = fit_load4(x + l), m4 = fit_set4(m);
        const fit_f4 q = fit_round4((x4 + m4) * fit_set4(inverse), f->lo, f->hi);
        const fit_f4 e = fit_set4(d) * q - m4 - x4;

        memcpy(ret_q + l, &q, sizeof(q));
        error += fit_load4(w + l) * e * e;
    }
    return fit_sum4(error);
}

/* Tries the scales and minimums around those of group @g, and keeps the best. */
static void k_improve(struct k_fit *f, unsigned g, int lo, int hi, int most_mn)
{
    const int sc = f->sc[g], mn = f->mn[g];
    double best = k_round(f, g, sc, mn, f->q + g * GROUP);

    for (int i = MAX(sc - 1, lo); i <= MIN(sc + 1, hi); i++)
        for (int j = MAX(mn - 1, 0); j <= MIN(mn + 1, most_mn); j++) {
            float q[GROUP];

            if (i == sc && j == mn)
                continue;
            const double error = k_round(f, g, i, j, q);

            if (error < best) {
                best = error;
                f->sc[g] = i;
                f->mn[g] = j;
                memcpy(f->q + g * GROUP, q, sizeof(q));
            }
        }
}

/* Fits d and m to the codes, with the least squared error. If there is no best m, or it would be
 * negative, only d is fitted. Returns false if the codes do not determine d. */
static bool k_refit(const struct k_fit *f, float *ret_d, float *ret_m)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;

    for (unsigned g = 0; g < GROUPS; g++) {
        fit_f4 w = fit_set4(0), wq = w, wqq = w, wx = w, wqx = w;
        const double sc = f->sc[g], mn = -f->mn[g];

        for (unsigned l = g * GROUP; l < (g + 1) * GROUP; l += 4) {
            const fit_f4 x4 = fit_load4(f->x + l), w4 = fit_load4(f->w + l);
            const fit_f4 q = fit_load4(f->q + l);

            w += w4;
            wq += w4 * q;
            wqq += w4 * q * q;
            wx += w4 * x4;
            wqx += w4 * q * x4;
        }
        aa += sc * sc * fit_sum4(wqq);
        ab += sc * mn * fit_sum4(wq);
        bb += mn * mn * fit_sum4(w);
        ax += sc * fit_sum4(wqx);
        bx += mn * fit_sum4(wx);
    }
    const double det = aa * bb - ab * ab;

    if (!(aa > 0) || !isfinite(aa) || !isfinite(ax))
        return false;
    if (det > 1e-9 * aa * bb && (bx * aa - ax * ab) / det >= 0) {
        *ret_d = (float)((ax * bb - bx * ab) / det);
        *ret_m = (float)((bx * aa - ax * ab) / det);
        return true;
    }
    *ret_d = (float)((ax - ab * f->m) / aa);
    *ret_m = f->m;
    return true;
}

/* Chooses scales and codes for the scales f->d and f->m of the super-block, from the scales @d and
 * @m that were fitted to the groups. Then fits f->d and f->m to the codes, and chooses again. */
static void k_choose(struct k_fit *f, const float *d, const float *m, int lo, int hi, int most_mn)
{
    float new_d, new_m;

    for (unsigned g = 0; g < GROUPS; g++) {
        f->sc[g] = f->d != 0 ? fit_round(d[g] / f->d, lo, hi) : 0;
        f->mn[g] = f->m > 0 ? fit_round(m[g] / f->m, 0, most_mn) : 0;
        k_improve(f, g, lo, hi, most_mn);
    }
    if (k_refit(f, &new_d, &new_m)) {
        f->d = f16_to_f32(fit_f16(new_d));
        f->m = f16_to_f32(fit_f16(new_m));
        for (unsigned g = 0; g < GROUPS; g++)
            k_improve(f, g, lo, hi, most_mn);
    }
}

static void k_encode_q2(struct k_fit *f, const float *src, const float *importance, uint8_t *dst)
{
    struct block_q2_k b = {0};
    float d[GROUPS], m[GROUPS], top_d = 0, top_m = 0;

    k_load(f, src, importance, 0, 3);
    fit_best()->offsets(f->x, importance, FIT_BY_SIZE, GROUP, GROUPS, 3, d, m);
    for (unsigned g = 0; g < GROUPS; g++) {
        top_d = MAX(top_d, d[g]);
        top_m = MAX(top_m, m[g]);
    }
    f->d = f16_to_f32(fit_f16(top_d / 15));
    f->m = f16_to_f32(fit_f16(top_m / 15));
    k_choose(f, d, m, 0, 15, 15);

    b.d = fit_f16(f->d);
    b.dmin = fit_f16(f->m);
    for (unsigned g = 0; g < GROUPS; g++)
        b.scales[g] = (uint8_t)(f->sc[g] | f->mn[g] << 4);
    for (unsigned l = 0; l < SUPER_ELEMS; l++)
        put_two_bits(b.q, l, (int)f->q[l]);
    memcpy(dst, &b, sizeof(b));
}

static void k_encode_q3(struct k_fit *f, const float *src, const float *importance, uint8_t *dst)
{
    static const float none[GROUPS];
    struct block_q3_k b = {0};
    float d[GROUPS];

    k_load(f, src, importance, -4, 3);
    fit_best()->scales(f->x, importance, GROUP, GROUPS, -4, 3, d);
    /* The largest scale becomes -32, because 6 bits have one more negative value. */
    f->d = f16_to_f32(fit_f16(fit_extreme(d, GROUPS) / -32));
    f->m = 0;
    k_choose(f, d, none, -32, 31, 0);

    b.d = fit_f16(f->d);
    for (unsigned g = 0; g < GROUPS; g++)
        put_k_scale6(b.scales, g, f->sc[g] + 32);
    for (unsigned l = 0; l < SUPER_ELEMS; l++) {
        const int q = (int)f->q[l] + 4;

        put_two_bits(b.q, l, q & 3);
        b.high[l % 32] |= (uint8_t)(q >> 2 << l / 32);
    }
    memcpy(dst, &b, sizeof(b));
}

void encode_q2_k_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct k_fit f;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(struct block_q2_k))
        k_encode_q2(&f, src + i, importance ? importance + i : NULL, p);
}

void encode_q2_k(const float *src, void *dst, uint64_t n_elems)
{
    encode_q2_k_by(src, NULL, dst, n_elems);
}

void encode_q3_k_by(const float *src, const float *importance, void *dst, uint64_t n_elems)
{
    uint8_t *p = dst;
    struct k_fit f;

    for (uint64_t i = 0; i < n_elems; i += SUPER_ELEMS, p += sizeof(struct block_q3_k))
        k_encode_q3(&f, src + i, importance ? importance + i : NULL, p);
}

void encode_q3_k(const float *src, void *dst, uint64_t n_elems)
{
    encode_q3_k_by(src, NULL, dst, n_elems);
}
