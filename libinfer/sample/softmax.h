/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Exponentials of a whole row: the part of sampling that looks at every token. */

#include <stdint.h>

/*
 * Replaces each x by exp((x - max) / temperature) and returns the sum. @max is the largest value,
 * finite; others may be -infinity. Relative error below 2e-7; results below 1e-37 are 0. The same
 * bits on every CPU, other than expf().
 */
double softmax_masses(float *x, uint32_t n, float max, float temperature);
