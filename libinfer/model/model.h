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
/* Fails for an encoder: it has no logits. */
int model_build(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);

/* What the rows of a text shall become. */
enum model_make {
    MODEL_MAKE_VECTOR, /* one vector a text */
    MODEL_MAKE_ROWS,   /* one vector a token */
    MODEL_MAKE_SCORE,  /* the classifier's logits, or those of two tokens */
};

struct model_embed {
    enum model_make make;
    uint32_t i_task; /* of models that are adapted to tasks */
    enum pooling pooling;
    int32_t tokens[2]; /* SCORE without a classifier: "no" and "yes" */
};

/* The model's own pooling, or what is usual for its kind. */
enum pooling model_pooling(const struct model *m);
/* What scores are made of, whatever the files say of pooling: most often one row. */
enum pooling model_score_pooling(const struct model *m);
/*
 * The forward pass of texts as wholes, over a KV store of one layer. A batch names the row of each
 * text that is pooled; of ROWS all rows. -EOPNOTSUPP: the model makes no such thing; else as
 * model_build().
 */
int model_build_embed(struct model *m, const struct model_embed *how, struct graph **ret_graph,
                      struct inf_err *reterr);
/* Columns of what the graph makes. */
uint32_t model_embed_width(const struct model *m, const struct model_embed *how);
