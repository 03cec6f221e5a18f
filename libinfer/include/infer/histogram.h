/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_HISTOGRAM_H
#define INFER_HISTOGRAM_H

/* Histograms: how often values occurred, by their size. All histograms of one unit have the same
 * bounds. */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INF_HISTOGRAM_BUCKETS 16

struct inf_histogram {
    uint64_t buckets[INF_HISTOGRAM_BUCKETS]; /* bucket i counts the values that are at most bound i,
                                                and above bound i - 1 */
    uint64_t count;                          /* all values, those above the last bound included */
    double sum;
};

enum inf_histogram_unit {
    INF_HISTOGRAM_SECONDS, /* bounds from 1 ms to 10 min */
    INF_HISTOGRAM_NUMBER,  /* the bounds are the powers of two from 1 to 32768 */
};

/* Returns the bounds, [INF_HISTOGRAM_BUCKETS], in ascending order. */
INF_PUBLIC const double *inf_histogram_bounds(enum inf_histogram_unit unit);

#ifdef __cplusplus
}
#endif
#endif
