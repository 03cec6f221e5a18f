/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares bound_attention(), which derives the error bounds of attention for bound.c, and the
 * function of bound.c that bound-attn.c needs. */

#include "checkkern/devices/bound-ops.h"

void bound_round(enum bound_rounding how, const double *x, double *error, size_t n);
void bound_attention(const struct bound *b, const struct graph_node *node,
                     const struct bound_rules *rules, double *error);
