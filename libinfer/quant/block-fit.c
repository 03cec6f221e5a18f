/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds scales for the encoders.
 *
 * A short search tries scales that map the value of the largest magnitude to about the end of the
 * range, and for each rounding computes the scale that fits best.
 */

#include "quant/block-fit.h"

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
    mean /= (float)n;
    for (unsigned i = 0; i < n; i++)
        ret_w[i] = sqrtf(mean) + fabsf(x[i]);
}

float fit_scale(const float *x, const float *w, unsigned n, int lo, int hi)
{
    float extreme = 0, best = 0;
    double best_gain = 0;

    for (unsigned i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    if (extreme == 0)
        return 0;
    for (int step = -9; step <= 9; step++) {
        const float inverse = ((float)lo + 0.1f * (float)step) / extreme;
        double xq = 0, qq = 0;

        if (!isfinite(inverse))
            break;
        for (unsigned i = 0; i < n; i++) {
            const int q = fit_round(x[i] * inverse, lo, hi);

            xq += (double)w[i] * x[i] * q;
            qq += (double)w[i] * q * q;
        }
        /* With the best d = xq / qq the error is Σwx² - xq² / qq. */
        if (qq > 0 && xq * xq / qq > best_gain) {
            best_gain = xq * xq / qq;
            best = (float)(xq / qq);
        }
    }
    return best;
}

void fit_affine(const float *x, const float *w, unsigned n, int hi, float *ret_d, float *ret_m)
{
    float lo_x = 0, hi_x = 0;
    double best = INFINITY, sw = 0, swx = 0;

    for (unsigned i = 0; i < n; i++) {
        lo_x = MIN(lo_x, x[i]);
        hi_x = MAX(hi_x, x[i]);
        sw += w[i];
        swx += (double)w[i] * x[i];
    }
    *ret_d = (hi_x - lo_x) / (float)hi;
    *ret_m = -lo_x;
    for (int step = -10; step <= 10 && hi_x > lo_x; step++) {
        const float inverse = ((float)hi + 0.1f * (float)step) / (hi_x - lo_x);
        double sq = 0, sqq = 0, sxq = 0, d, m, error = 0;

        if (!isfinite(inverse))
            break;
        for (unsigned i = 0; i < n; i++) {
            const int q = fit_round((x[i] - lo_x) * inverse, 0, hi);

            sq += (double)w[i] * q;
            sqq += (double)w[i] * q * q;
            sxq += (double)w[i] * x[i] * q;
        }
        const double det = sw * sqq - sq * sq;

        if (!(det > 0))
            continue;
        d = (sw * sxq - swx * sq) / det;
        m = (sq * sxq - sqq * swx) / det;
        if (m < 0) {
            m = 0;
            d = sqq > 0 ? sxq / sqq : 0;
        }
        if (!(d > 0))
            continue;
        for (unsigned i = 0; i < n; i++) {
            const int q = fit_round((float)((x[i] + m) / d), 0, hi);
            const double e = d * q - m - x[i];

            error += (double)w[i] * e * e;
        }
        if (error < best) {
            best = error;
            *ret_d = (float)d;
            *ret_m = (float)m;
        }
    }
}
