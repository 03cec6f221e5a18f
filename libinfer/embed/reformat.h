/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Weights in the format that a device multiplies fastest
 *
 * A model's weights are used where they lie. An embedder computes many rows at a time and stays, so
 * that a copy of its matrices in another format is worth its memory.
 */

#include "backend/backend.h"
#include "core/arena.h"

/* The same graph; matrices that @backend wants in another format are copied into @arena, which
 * outlives the graph. -ENOMEM. */
int reformat_graph(const struct backend *backend, const struct graph *g, struct arena *arena,
                   struct graph **ret_graph, struct inf_err *reterr);
