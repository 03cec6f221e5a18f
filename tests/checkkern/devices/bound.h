/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How far a device may be from a graph in double precision
 *
 * The errors that float arithmetic makes are followed from node to node: each value has a bound of
 * its own, made of the bounds of what it is computed from and of the roundings of its own
 * operation (tolerance.c). What a device rounds on purpose, such as rows that are multiplied as
 * binary16, is told by rules.
 */

#include "graph/graph.h"
#include "quant/codec.h"

enum bound_rounding {
    BOUND_EXACT, /* as the floats that they are */
    BOUND_F16,
    BOUND_F16_ROWS, /* halves, and a scale of the row */
    BOUND_F16_SUMS, /* blocks of 32 halves and a scale; sums of a block are rounded as well */
    BOUND_BF16,
    BOUND_Q8, /* 32 int8 and a scale */
};

struct bound_rules {
    enum bound_rounding products[INF_DTYPE_N]; /* rows, and weights of half precision with them */
    enum bound_rounding attention;             /* queries and the softmax's weights */
    enum codec k, v;                           /* what keys and values are stored as */
};

struct bound {
    const struct graph *g;
    size_t n;        /* rows */
    double **values; /* [nodes], each [n, width] */
    double **errors; /* the same */
};

/* Of @n rows of one sequence from position 0 on; @input: [n, width] or NULL. Ends the program when
 * there is no memory. */
void bound_init(struct bound *b, const struct graph *g, const int32_t *tokens, size_t n,
                const float *input, const struct bound_rules *rules);
void bound_done(struct bound *b);
/* Of the output. */
const double *bound_values(const struct bound *b);
const double *bound_errors(const struct bound *b);
