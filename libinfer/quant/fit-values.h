/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the scales of groups whose codes are indices of a table of values (struct fit_table). Files
 * fit-*.c define lanes_nearest(table, numbers) before they include this file. */

#include "quant/fit-lanes.h"

/* Rounds to values of the table with the scale 1 / @inverse, and computes the scale that then fits
 * best. Returns how much this scale reduces the error. */
static inline lanes fit_values_gain(const struct fit_batch *b, const struct fit_table *t,
                                    lanes inverse, lanes *ret_d)
{
    lanes xv = lanes_set(0), vv = lanes_set(0);

    for (unsigned i = 0; i < FIT_MAX; i++) {
        const lanes v = lanes_nearest(t, lanes_mul(b->x[i], inverse));
        const lanes wv = lanes_mul(b->w[i], v);

        xv = lanes_add(xv, lanes_mul(wv, b->x[i]));
        vv = lanes_add(vv, lanes_mul(wv, v));
    }
    *ret_d = lanes_less(lanes_set(0), vv, lanes_div(xv, vv), lanes_set(0));
    return lanes_mul(*ret_d, xv);
}

/* Tries scales of both signs that map the number of the largest magnitude to about an end of the
 * table, because tables need not be symmetric. A scale that is too small clips this number, which
 * is right for outliers only. */
static lanes fit_value_scale(const struct fit_batch *b, const struct fit_table *t)
{
    const float ends[] = {t->value[0], t->value[ARRAY_SIZE(t->value) - 1]};
    lanes extreme = lanes_set(0), best = lanes_set(0), best_gain = lanes_set(0), d, gain;

    for (unsigned i = 0; i < FIT_MAX; i++)
        extreme = lanes_less(lanes_abs(extreme), lanes_abs(b->x[i]), b->x[i], extreme);
    for (unsigned end = 0; end < ARRAY_SIZE(ends); end++)
        for (int step = -8; step <= 4; step++) {
            const lanes inverse = lanes_less(
                lanes_set(0), lanes_abs(extreme),
                lanes_div(lanes_set(ends[end] * (1 - 0.03f * (float)step)), extreme), lanes_set(0));

            gain = fit_values_gain(b, t, inverse, &d);
            best = lanes_less(best_gain, gain, d, best);
            best_gain = lanes_max(best_gain, gain);
        }
    /* With the scale that fits best, some numbers are rounded to other values, so the fit is
     * repeated. */
    for (unsigned round = 0; round < 2; round++) {
        const lanes inverse = lanes_less(lanes_set(FLT_MIN * 4), lanes_abs(best),
                                         lanes_div(lanes_set(1), best), lanes_set(0));

        gain = fit_values_gain(b, t, inverse, &d);
        best = lanes_less(gain, best_gain, best, d);
    }
    return best;
}
