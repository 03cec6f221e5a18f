/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The largest values of a row of logits, as a device that can choose tells them
 *
 * A vocabulary has 10^5 entries; what sampling mostly needs of it is a few of them and the sum that
 * makes them probabilities. A list is a prefix of the order "larger values first, equal ones by
 * lower index" over the whole row.
 */

#include <stdint.h>

#define TOP_MAX 64

struct top_row {
    uint32_t n_wanted; /* who asks: so many of the largest, at most TOP_MAX; 0: the whole row */
    /* The answer. As many as are wanted; fewer when no more are above -infinity; 0 when the row has
     * a NaN or its largest value is infinite: the whole row then tells what is wrong with it. */
    uint32_t n;
    double log_sum; /* log(Σ exp(x - values[0])) over the whole row */
    int32_t ids[TOP_MAX];
    float values[TOP_MAX];
};
