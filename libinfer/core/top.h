/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list of the largest values of a row of logits, which some devices return
 *
 * A vocabulary has about 10^5 entries. Sampling mostly needs only a few of them, and the sum that
 * normalizes probabilities. A list is the beginning of the row after sorting by decreasing value.
 * If values are equal, the one with the lower index comes first.
 */

#include <stdint.h>

#define TOP_MAX 64

struct top_row {
    uint32_t n_wanted; /* set by the caller: how many of the largest values, at most TOP_MAX; 0:
                          the whole row */
    /* Set by the device: the number of values in the list. It is less than n_wanted if fewer values
     * of the row are above -infinity. It is 0 if the row has a NaN or its largest value is
     * infinite: then the caller must look at the whole row. */
    uint32_t n;
    double log_sum; /* log(Σ exp(x - values[0])) over the whole row */
    int32_t ids[TOP_MAX];
    float values[TOP_MAX];
};
