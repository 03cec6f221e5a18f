/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the functions of bound-ops.c and bound-streams.c, which derive error bounds for bound.c,
 * and the functions of bound.c that these files need. */

#include "checkkern/devices/bound.h"

#define BOUND_UNIT  0x1p-24
#define BOUND_FLUSH 0x1p-126

/* Returns the number of doubles in a row of a node's value (lib/graph_eval.c). */
size_t bound_width(const struct graph_node *node);
/* Returns an array of @n zeros. Ends the program if memory runs out. */
double *bound_doubles(size_t n);
/* Returns an activation and the error of its own arithmetic. */
double bound_act(enum graph_act kind, double x, double *ret_error);
/* Returns the largest factor by which an activation increases errors near x. */
double bound_steepness(enum graph_act kind, double x, double dx);
/* Derives the errors of a product of @n rows with one matrix. */
void bound_matmul(const struct weight *w, const struct weight *bias, enum bound_rounding how,
                  size_t n, const double *x, const double *dx, double *error);

void bound_conv(const struct bound *b, const struct graph_node *node, double *error);
void bound_delta(const struct bound *b, const struct graph_node *node, double *error);
void bound_route(const struct bound *b, const struct graph_node *node, const double *y,
                 double *error);
void bound_experts(const struct bound *b, const struct graph_node *node,
                   const struct bound_rules *rules, double *error);
void bound_mix(const struct bound *b, const struct graph_node *node, double *error);

/* bound-streams.c: operations on streams and on the statistics of rows. */
/* Returns all rows of a weight, or @n zeros if it has no data. Ends the program if memory runs
 * out. The caller owns the result. */
float *bound_decoded(const struct weight *w, size_t n);
void bound_scale(const struct bound *b, const struct graph_node *node, const double *y,
                 double *error);
void bound_blend(const struct bound *b, const struct graph_node *node, double *error);
void bound_level(const struct bound *b, const struct graph_node *node, double *error);
void bound_turn(const struct bound *b, const struct graph_node *node, double *error);
void bound_peaks(const struct bound *b, const struct graph_node *node, double *error);
