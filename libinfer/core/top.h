/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list of the largest values of a row of logits, as devices that can select return it
 *
 * A vocabulary has 10^5 entries. Sampling mostly needs a few of them and the sum that normalizes
 * probabilities. A list is a prefix of the order "larger values first, equal ones by lower index"
 * over the whole row.
 */

#include <stdint.h>

#define TOP_MAX 64

struct top_row {
    uint32_t n_wanted; /* set by the caller: how many of the largest values, at most TOP_MAX; 0:
                          the whole row */
    /* Set by the device: the number of values. It is less than requested if fewer values are above
     * -infinity. It is 0 if the row has a NaN or its largest value is infinite: then the whole row
     * shows what is wrong. */
    uint32_t n;
    double log_sum; /* log(Σ exp(x - values[0])) over the whole row */
    int32_t ids[TOP_MAX];
    float values[TOP_MAX];
};
