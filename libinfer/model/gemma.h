/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the parts of graphs that Gemma 3n and Gemma 4 share (gemma.c). */

#include "model/arch.h"

/* Sets which earlier layer's keys and values each of the last hp->gemma.n_shared layers reads: the
 * last layer of its kind that has its own. -EBADMSG: there is no such layer; the message names the
 * layer. */
int gemma_share_layers(struct hparams *hp, struct inf_err *reterr);
/* Computes attention from the normalized rows @h. Values are normalized without a weight; a layer
 * without a matrix for them uses what the matrix of the keys gives. */
graph_ref gemma_attention(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h);
/* Computes the per-layer embeddings of all layers, [rows, n_layers × per_layer], from the scaled
 * embedding @x. */
graph_ref gemma_inputs(const struct model *m, struct graph *g, graph_ref x);
/* Computes what the layer's embedding of the token, @inputs [rows, per_layer], adds to the residual
 * stream @x, before the norm that follows. */
graph_ref gemma_apply_inputs(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                             graph_ref inputs);
