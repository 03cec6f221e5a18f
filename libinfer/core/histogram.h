/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <infer/histogram.h>

/* Counts one value. */
void histogram_add(struct inf_histogram *h, enum inf_histogram_unit unit, double value);
