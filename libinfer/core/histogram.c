/* SPDX-License-Identifier: Apache-2.0 */
/* Counts values by their size. */
#include "core/histogram.h"

static const double bounds[][INF_HISTOGRAM_BUCKETS] = {
    [INF_HISTOGRAM_SECONDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
                               10, 30, 120, 600},
    [INF_HISTOGRAM_NUMBER] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
                              32768},
};

const double *inf_histogram_bounds(enum inf_histogram_unit unit)
{
    return bounds[unit];
}

void histogram_add(struct inf_histogram *h, enum inf_histogram_unit unit, double value)
{
    unsigned i = 0;

    h->count++;
    h->sum += value;
    while (i < INF_HISTOGRAM_BUCKETS && value > bounds[unit][i])
        i++;
    if (i < INF_HISTOGRAM_BUCKETS)
        h->buckets[i]++;
}
