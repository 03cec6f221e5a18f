/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes how many layers of a model fit into a device's memory.
 *
 * A device that cannot hold a whole model gets the model's last layers and the head; the CPU gets
 * the embedding and the first layers. This order moves less data than the opposite order:
 * - A step reads only one row of the embedding per token, but all of the head. So the head belongs
 *   where memory is fast, and the embedding does not need fast memory. If head and embedding are
 *   one table, the table is on the device as the head, and the CPU reads the rows of the embedding
 *   from the mapped file.
 * - The residual stream goes only from the CPU to the device. The device returns the logits of few
 *   rows, or only the largest logits of these rows. In the steps of a prompt before the prompt's
 *   last step, the device returns nothing.
 */

#include "backend/backend.h"

/* Holds the sizes of the parts of a model, in bytes. */
struct layer_sizes {
    uint32_t n_layers;
    uint64_t *weights; /* [n_layers] */
    uint64_t head;     /* final norm and head; includes the last layer if it cannot be cut off */
    uint64_t embd;     /* embedding; 0 if the head uses the same table */
    uint64_t *kv;      /* [n_layers] the state of a layer in all blocks, usually K and V */
    uint64_t scratch;  /* further memory of a plan (backend.h) */
};

/* Computes the sizes of the weights of @g and of a KV store. Leaves `scratch` at 0; the caller sets
 * the real value. Returns 0; -ENOMEM; or -EOPNOTSUPP if the graph cannot be cut at each border
 * (graph_cut()). */
int layer_sizes_init(struct layer_sizes *sizes, const struct graph *g,
                     const struct kv_layout *layout, struct inf_err *reterr);
void layer_sizes_done(struct layer_sizes *sizes);

/*
 * Returns how many of the last layers fit into @budget bytes together with scratch and head; this
 * number may be 0. The argument @i_layer of layer_split_new() is n_layers minus this number. If all
 * layers fit, *ret_whole says whether the embedding fits, too. If it does, no split is needed.
 */
uint32_t layer_fit(const struct layer_sizes *sizes, uint64_t budget, bool *ret_whole);
