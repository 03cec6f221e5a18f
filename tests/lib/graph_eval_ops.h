/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares what the files of the graph evaluator share. @y is the value of the node, and the other
 * arrays are the values of its inputs. */

#include "graph/graph.h"

struct eval {
    const struct graph *g;
    const int32_t *tokens;
    const double *input;
    size_t n;        /* number of rows; all rows are computed */
    double **values; /* [nodes], each [n, width] */
    bool rounds;     /* inputs of products with quantized weights are rounded */
};

/* Decodes row @i of a weight. */
void eval_row(const struct weight *w, size_t i, float *out);
double eval_act(enum graph_act kind, double x);
void eval_matmul(const struct eval *e, const struct graph_node *node, const double *x, double *y);

/* graph_eval_ops.c */
void eval_conv(const struct eval *e, const struct graph_node *node, const double *x, double *y);
void eval_delta(const struct eval *e, const struct graph_node *node, const double *qkv,
                const double *a, const double *b, double *y);
void eval_route(const struct eval *e, const struct graph_node *node, const double *x, double *y);
void eval_matmul_experts(const struct eval *e, const struct graph_node *node, const double *x,
                         const double *routes, double *y);
void eval_mix(const struct eval *e, const struct graph_node *node, const double *x,
              const double *routes, double *y);
void eval_spread(const struct eval *e, const struct graph_node *node, const double *x,
                 const double *routes, double *y);
void eval_scale(const struct eval *e, const struct graph_node *node, const double *x, double *y);
void eval_blend(const struct eval *e, const struct graph_node *node, const double *const src[3],
                double *y);
void eval_level(const struct eval *e, const struct graph_node *node, const double *x,
                const double *like, double *y);
void eval_turn(const struct eval *e, const struct graph_node *node, const double *x, double *y);
void eval_peaks(const struct eval *e, const struct graph_node *node, const double *x, double *y);
