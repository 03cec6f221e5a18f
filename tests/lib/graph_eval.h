/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Evaluates a graph in double precision, for one sequence from position 0, directly from the
 * formulas in graph/graph.h. The evaluation is slow and shares no code with any backend; tests
 * compare models with it.
 */

#include "graph/graph.h"

/* Sets *ret_logits, [n_tokens, width of the output], which the caller frees. Errors: -EINVAL,
 * -ENOMEM. */
int graph_eval_input(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                     const double *input, double **ret_logits);
/* Works like graph_eval_input(), for graphs that take no input rows. */
int graph_eval(const struct graph *g, const int32_t *tokens, size_t n_tokens, double **ret_logits);
/* Returns the values of all nodes, each [n_tokens, width]. */
int graph_eval_values(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                      const double *input, double ***ret_values);
/* Works like graph_eval_values(), but rounds the inputs of products with quantized weights as the
 * CPU does (MATMUL_ACT_Q8 in backend/cpu/matmul/matmul.h): to integers of 8 bits, with a scale for
 * each 32 of them. Packed ternary weights are an exception; their inputs are not rounded. */
int graph_eval_rounded(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                       double ***ret_values);
void graph_values_free(const struct graph *g, double **values);
