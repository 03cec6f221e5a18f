/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks shapes and types of graph nodes, once for all backends. */

#include "graph/graph.h"

/* Checks @node, which will follow @nodes[0 … n - 1]. Fills in its width, rows_kept and slots, and
 * its group if that is 0. Returns 0, or -EINVAL with the reason in *reterr. */
int shape_check(const struct graph_node *nodes, size_t n, struct graph_node *node,
                struct inf_err *reterr);
/* Returns the name of an operation, such as "matmul": a string constant. */
const char *graph_op_name(enum graph_op op);
