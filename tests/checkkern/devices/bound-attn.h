/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Derives the error bounds of attention for bound.c, and declares the functions that both files
 * share. */

#include "checkkern/devices/bound.h"

#define BOUND_UNIT  0x1p-24
#define BOUND_FLUSH 0x1p-126

void bound_round(enum bound_rounding how, const double *x, double *error, size_t n);
void bound_attention(const struct bound *b, const struct graph_node *node,
                     const struct bound_rules *rules, double *error);
