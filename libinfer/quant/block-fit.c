/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds scales for the encoders.
 *
 * A short search tries scales that map the value of the largest magnitude to about the end of the
 * range, and for each rounding computes the scale that fits best.
 */

#include "quant/block-fit.h"

#include <stdbool.h>

#include "core/half.h"
#include "core/macros.h"

void fit_load(const float *src, float *ret_x, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ret_x[i] = isfinite(src[i]) ? src[i] : 0.0f;
}

uint16_t fit_f16(float x)
{
    return f16_from_f32(MAX(MIN(x, 65504.0f), -65504.0f));
}

void fit_weights(const float *x, unsigned n, float *ret_w)
{
    float mean = 0;

    for (unsigned i = 0; i < n; i++)
        mean += x[i] * x[i];
    mean = sqrtf(mean / (float)n);
    for (unsigned i = 0; i < n; i++)
        ret_w[i] = mean + fabsf(x[i]);
}

float fit_extreme(const float *x, unsigned n)
{
    float extreme = 0;

    for (unsigned i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme;
}

float fit_scale(const float *x, const float *w, unsigned n, int lo, int hi, int stride)
{
    const float extreme = fit_extreme(x, n);
    double best_gain = 0;
    float best = 0;

    if (extreme == 0)
        return 0;
    for (int step = -9; step <= 9; step += stride) {
        const float inverse = ((float)lo + 0.1f * (float)step) / extreme;
        fit_f4 xq = fit_set4(0), qq = fit_set4(0);

        if (!isfinite(inverse))
            break;
        for (unsigned i = 0; i < n; i += 4) {
            const fit_f4 x4 = fit_load4(x + i), w4 = fit_load4(w + i);
            const fit_f4 q = fit_round4(x4 * fit_set4(inverse), (float)lo, (float)hi);

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

/* Holds sums over the elements: the sums of w, w x, w q, w q² and w x q. */
struct fit_sums {
    double w, wx, q, qq, xq;
};

/* Adds up the sums with q for the roundings of (x - lo) × inverse. */
static void fit_add_codes(const float *x, const float *w, unsigned n, float lo, float inverse,
                          int hi, struct fit_sums *s)
{
    fit_f4 sq = fit_set4(0), sqq = fit_set4(0), sxq = fit_set4(0);

    for (unsigned i = 0; i < n; i += 4) {
        const fit_f4 x4 = fit_load4(x + i), w4 = fit_load4(w + i);
        const fit_f4 q = fit_round4((x4 - fit_set4(lo)) * fit_set4(inverse), 0, (float)hi);

        sq += w4 * q;
        sqq += w4 * q * q;
        sxq += w4 * q * x4;
    }
    s->q = fit_sum4(sq);
    s->qq = fit_sum4(sqq);
    s->xq = fit_sum4(sxq);
}

/* Computes the scale and the minimum that fit best to the codes of the sums. Returns false if there
 * is no such scale. */
static bool fit_solve(const struct fit_sums *s, double *ret_d, double *ret_m)
{
    const double det = s->w * s->qq - s->q * s->q;

    if (!(det > 0))
        return false;
    *ret_d = (s->w * s->xq - s->wx * s->q) / det;
    *ret_m = (s->q * s->xq - s->qq * s->wx) / det;
    if (*ret_m < 0) {
        *ret_m = 0;
        *ret_d = s->qq > 0 ? s->xq / s->qq : 0;
    }
    return *ret_d > 0;
}

/* Returns the error of all elements if they are rounded with the scale @d and the minimum @m. */
static double fit_error(const float *x, const float *w, unsigned n, int hi, float d, float m)
{
    const fit_f4 d4 = fit_set4(d), m4 = fit_set4(m), inverse = fit_set4(1 / d);
    fit_f4 error = fit_set4(0);

    for (unsigned i = 0; i < n; i += 4) {
        const fit_f4 x4 = fit_load4(x + i), w4 = fit_load4(w + i);
        const fit_f4 e = d4 * fit_round4((x4 + m4) * inverse, 0, (float)hi) - m4 - x4;

        error += w4 * e * e;
    }
    return fit_sum4(error);
}

void fit_affine(const float *x, const float *w, unsigned n, int hi, int stride, float *ret_d,
                float *ret_m)
{
    struct fit_sums s = {0};
    float lo_x = 0, hi_x = 0;
    double best = INFINITY;

    for (unsigned i = 0; i < n; i++) {
        lo_x = MIN(lo_x, x[i]);
        hi_x = MAX(hi_x, x[i]);
        s.w += w[i];
        s.wx += (double)w[i] * x[i];
    }
    *ret_d = (hi_x - lo_x) / (float)hi;
    *ret_m = -lo_x;
    for (int step = -10; step <= 10 && hi_x > lo_x; step += stride) {
        const float inverse = ((float)hi + 0.1f * (float)step) / (hi_x - lo_x);
        double d, m;

        if (!isfinite(inverse))
            break;
        fit_add_codes(x, w, n, lo_x, inverse, hi, &s);
        if (!fit_solve(&s, &d, &m))
            continue;
        const double error = fit_error(x, w, n, hi, (float)d, (float)m);

        if (error < best) {
            best = error;
            *ret_d = (float)d;
            *ret_m = (float)m;
        }
    }
}
