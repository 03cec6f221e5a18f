/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a model a device has memory for
 *
 * A device that cannot hold a whole model gets its last layers and the head, the CPU the embedding
 * and the first layers. Of the two ways round this one moves the least:
 * - of an embedding a step reads a row for each token, of the head everything: the head belongs
 *   where memory is fast, the embedding needs no place there. The same holds when both are one
 *   table: the CPU reads its rows from the mapped file;
 * - rows go to the device alone. What comes back are the logits of few rows, or just the tokens
 *   chosen, and nothing at all in the steps of a prompt before its last.
 */

#include "backend/backend.h"

/* Bytes that parts of a model take. */
struct layer_sizes {
    uint32_t n_layers;
    uint64_t *weights; /* [n_layers] */
    uint64_t head;     /* final norm and head; the last layer, too, where it cannot be cut off */
    uint64_t embd;     /* of the embedding; 0 when its table is the head's */
    uint64_t kv;       /* K and V of one layer, all blocks */
    uint64_t scratch;  /* what a plan needs beside */
};

/* Measures the weights of @g and a KV store of @n_blocks; scratch is 0, and the caller's to add.
 * As graph_border(), when the layers cannot be told apart. */
int layer_sizes_init(struct layer_sizes *sizes, const struct graph *g,
                     const struct kv_layout *layout, uint32_t n_blocks, struct inf_err *reterr);
void layer_sizes_done(struct layer_sizes *sizes);

/*
 * How many of the last layers fit into @budget bytes beside scratch and head; 0: not one. What
 * fits is layer_split_new()'s border, n_layers minus that. With all layers *ret_whole tells
 * whether the embedding fits, too: then nothing needs splitting.
 */
uint32_t layer_fit(const struct layer_sizes *sizes, uint64_t budget, bool *ret_whole);
