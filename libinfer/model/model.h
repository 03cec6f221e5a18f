/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A model: hyperparameters and weights where they lie, and the graph of its forward pass
 *
 * Immutable after it was opened. model/archs.c lists the families; each is one file with the
 * table of arch.h.
 */

#include <infer/model.h>

#include "core/macros.h"
#include "format/format.h"
#include "graph/graph.h"

struct model;

/* Detects the architecture, checks and binds all weights. The model borrows @f, which must
 * outlive it. -EOPNOTSUPP: an architecture or tensor that this build does not run. */
int model_open(const struct format *f, struct model **ret_model, struct inf_err *reterr);
struct model *model_close(struct model *m);
DEFINE_CLEANUP(struct model *, model_close);

const struct hparams *model_hparams(const struct model *m);
/* Bytes of weights that one decoded token reads, head included, embedding row not. */
uint64_t model_bytes_token(const struct model *m);
/* Multiply-adds with matrices for one token: in all layers, and in the head, which only tokens
 * whose logits are wanted cost. */
uint64_t model_madds_layers(const struct model *m);
uint64_t model_madds_head(const struct model *m);
bool model_tied_head(const struct model *m);
/* The whole forward pass: token ids to logits. The graph borrows from the model. */
int model_build(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);
