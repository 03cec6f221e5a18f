/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many layers of a model fit into a device's memory
 *
 * A device that cannot hold a whole model gets its last layers and the head; the CPU gets the
 * embedding and the first layers. This way moves less data than the opposite one:
 * - A step reads only one row of the embedding per token, but all of the head. So the head belongs
 *   where memory is fast, and the embedding does not need fast memory. This also holds if both are
 *   one table: then the CPU reads its rows from the mapped file.
 * - Rows go only to the device. It returns logits of few rows, or just the chosen tokens, and
 *   nothing at all in the steps of a prompt before its last.
 */

#include "backend/backend.h"

/* Sizes of the parts of a model, in bytes. */
struct layer_sizes {
    uint32_t n_layers;
    uint64_t *weights; /* [n_layers] */
    uint64_t head;     /* final norm and head; includes the last layer if it cannot be cut off */
    uint64_t embd;     /* of the embedding; 0 if its table is also the head's */
    uint64_t kv;       /* K and V of one layer, all blocks */
    uint64_t scratch;  /* further memory of a plan */
};

/* Measures the weights of @g and a KV store of @n_blocks. Sets scratch to 0; the caller adds it.
 * Errors as of graph_border(), if the layers cannot be separated. */
int layer_sizes_init(struct layer_sizes *sizes, const struct graph *g,
                     const struct kv_layout *layout, uint32_t n_blocks, struct inf_err *reterr);
void layer_sizes_done(struct layer_sizes *sizes);

/*
 * How many of the last layers fit into @budget bytes besides scratch and head; may be 0. The border
 * for layer_split_new() is n_layers minus that. If all layers fit, *ret_whole says whether the
 * embedding fits too: then no split is needed.
 */
uint32_t layer_fit(const struct layer_sizes *sizes, uint64_t budget, bool *ret_whole);
