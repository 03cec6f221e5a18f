/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds the differences between the results of a device and those of the same graph in double
 * precision.
 *
 * The errors of float arithmetic are followed from node to node. Each value has its own bound,
 * which follows from the bounds of its operands and from the roundings of its own operation
 * (tolerance.c). The rules say which numbers a device rounds on purpose, for example rows that it
 * multiplies as binary16.
 */

#include "graph/graph.h"
#include "quant/codec.h"

enum bound_rounding {
    BOUND_EXACT, /* as floats, without rounding */
    BOUND_F16,
    BOUND_F16_ROWS, /* binary16 numbers, and a scale of the row */
    BOUND_F16_SUMS, /* blocks of 32 binary16 numbers and a scale; the sums of a block are rounded
                       too */
    BOUND_BF16,
    BOUND_Q8,   /* blocks of 32 int8 numbers and a scale */
    BOUND_ROW8, /* int8 numbers and a scale of the row. BitNet defines this rounding, so the graph
                   in double precision rounds in the same way, and only numbers that are close to
                   the middle between two steps can differ */
};

struct bound_rules {
    enum bound_rounding products[INF_DTYPE_N]; /* rounding of rows, by the format of the weights;
                                                  with BOUND_F16_ROWS weights are rounded, too */
    enum bound_rounding experts[INF_DTYPE_N];  /* the same for products by experts */
    enum bound_rounding attention; /* rounding of queries and of the softmax weights; with
                                      BOUND_F16_ROWS also of keys and values */
    enum codec k, v;               /* the formats of stored keys and values */
};

struct bound {
    const struct graph *g;
    size_t n;        /* rows */
    double **values; /* [nodes], each [n, width] */
    double **errors; /* the bounds of the errors, in the same shape */
};

/* Computes values and bounds for @n rows of one sequence from position 0 on. @input: [n, width] or
 * NULL. Ends the program if memory runs out. */
void bound_init(struct bound *b, const struct graph *g, const int32_t *tokens, size_t n,
                const float *input, const struct bound_rules *rules);
void bound_done(struct bound *b);
/* Returns the values of the output; bound_errors() returns the bounds of their errors. */
const double *bound_values(const struct bound *b);
const double *bound_errors(const struct bound *b);
