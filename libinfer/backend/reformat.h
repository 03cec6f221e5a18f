/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Weights in the format that a device multiplies fastest
 *
 * A model's weights are normally used in place. Encoders compute many rows at a time and stay
 * loaded, so a copy of their matrices in another format is worth its memory.
 */

#include "backend/backend.h"
#include "core/arena.h"
#include "core/map.h"

/* The copies; all zero: none. Graphs of one model share their copies. */
struct reformat {
    struct arena arena;
    struct map copies; /* from a weight's data and a format to its copy */
};

void reformat_done(struct reformat *rf);
/* Returns the same graph with copies of the matrices that @backend prefers in another format. The
 * copies belong to @rf, which must outlive the graph. -ENOMEM. */
int reformat_graph(const struct backend *backend, const struct graph *g, struct reformat *rf,
                   struct graph **ret_graph, struct inf_err *reterr);
