/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies weights to the format that a device multiplies fastest.
 *
 * A model's weights are normally used in place. Encoders compute many rows at a time and stay
 * loaded, so a copy of their matrices in another format is worth its memory.
 */

#include "backend/backend.h"
#include "core/arena.h"
#include "core/map.h"

/* Holds the copies of one model's weights, which all graphs of the model share. All members are
 * zero if there are no copies. */
struct reformat {
    struct arena arena;
    struct map copies; /* maps a weight's data and a format to the copy */
};

void reformat_done(struct reformat *rf);
/* Makes a copy of the graph @g in which those matrices that @backend multiplies faster in another
 * format are replaced by copies in this format. The copies belong to @rf, which must outlive the
 * graph. Returns 0 or -ENOMEM. */
int reformat_graph(const struct backend *backend, const struct graph *g, struct reformat *rf,
                   struct graph **ret_graph, struct inf_err *reterr);
