/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shape and type checks of graph nodes, done once for all backends. */

#include "graph/graph.h"

/* Checks @node as the successor of @nodes[0 … n - 1] and fills in its width, rows_kept and the
 * default of group. -EINVAL with the reason. */
int shape_check(const struct graph_node *nodes, size_t n, struct graph_node *node,
                struct inf_err *reterr);
/* The name of an operation, such as "matmul"; static. */
const char *graph_op_name(enum graph_op op);
