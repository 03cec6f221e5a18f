/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A graph computed in double precision, one sequence from position 0, straight from the formulas
 * of graph/graph.h. Slow, and independent of every backend: what models are checked with.
 */

#include "graph/graph.h"

/* *ret_logits: [n_tokens, width of the output], freed by the caller. -EINVAL, -ENOMEM. */
int graph_eval_input(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                     const double *input, double **ret_logits);
/* The same for graphs without input. */
int graph_eval(const struct graph *g, const int32_t *tokens, size_t n_tokens, double **ret_logits);
/* The values of all nodes, each [n_tokens, width]. */
int graph_eval_values(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                      const double *input, double ***ret_values);
void graph_values_free(const struct graph *g, double **values);
