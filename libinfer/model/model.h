/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares a model: its hyperparameters, its weights in the mapped file, and the graph of its
 * forward pass.
 *
 * A model is immutable once it is open. model/archs.c lists the architectures; each is one file
 * with a struct arch (arch.h).
 */

#include <infer/model.h>

#include "core/macros.h"
#include "format/format.h"
#include "graph/graph.h"

struct model;

/* Returns the architectures that this build computes, for format_open(). */
const struct arch_list *model_archs(void);
/* Checks and binds all weights. The model borrows @f, which was opened with model_archs() and must
 * outlive the model. -EOPNOTSUPP: a tensor that this build does not support. */
int model_open(const struct format *f, struct model **ret_model, struct inf_err *reterr);
struct model *model_close(struct model *m);
DEFINE_CLEANUP(struct model *, model_close);

const struct hparams *model_hparams(const struct model *m);
/* Counts the weights with planes (graph/weight.h), whose number format does not follow from the
 * type of a tensor: adds the bytes of the weights in format i to bytes[i], and the number of all
 * these weights to *@n. */
void model_count_planes(const struct model *m, uint64_t bytes[INF_DTYPE_N], uint64_t *n);
/* Returns the bytes of weights that one decoded token reads, including the head, without the
 * embedding row. */
uint64_t model_bytes_token(const struct model *m);
/* Return the number of multiply-adds with matrices for one token: in all layers, and in the head,
 * which is computed only for tokens whose logits are requested. */
uint64_t model_madds_layers(const struct model *m);
uint64_t model_madds_head(const struct model *m);
bool model_tied_head(const struct model *m);
/* Builds the whole forward pass from token ids to logits. The graph borrows from the model. Fails
 * for an encoder, which has no logits. */
int model_build(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);

/* Returns whether the model has a layer that predicts a further token (MTP, nextn). */
bool model_predicts(const struct model *m);
/* Does what model_build() does, with a GRAPH_EXPORT node for the result of the last norm in all
 * rows: the hidden states, [rows, n_embd]. */
int model_build_exporting(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);
/* Builds the layer that predicts a further token. Row i of a batch has a token and, in `input`, the
 * hidden state [n_embd] of the token before it. The logits are those of the token after it. The
 * graph exports the hidden states of the rows with logits; they are the input if the layer goes on
 * from its own prediction. The graph has one FULL group of one layer, and borrows from the model.
 * -EOPNOTSUPP: the model has no such layer. */
int model_build_predictor(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);

/* head.c: a draft head is a model that only drafts tokens for another model, its target. */
bool model_is_head(const struct model *m);
/* Returns the kind of drafts that a draft head makes ("eagle3"); NULL: the model is no draft
 * head. */
const char *model_head_kind(const struct model *m);
/* Returns whether the model is an assistant of Gemma 4, which reads the keys and values of its
 * target. */
bool model_head_assists(const struct model *m);
/* Returns the width of the hidden states that the draft head reads. */
uint32_t model_head_width(const struct model *m);
/* Returns the tokens [*ret_n] of the target that the rows of the head's output stand for; NULL:
 * token i is row i. Only for draft heads. */
const int32_t *model_head_tokens(const struct model *m, uint32_t *ret_n);
/* Checks whether the draft head @m can draft for @target. -EINVAL. */
int model_head_fits(const struct model *m, const struct model *target, struct inf_err *reterr);
/* Does what model_build() does, with a GRAPH_EXPORT node for the hidden states that the draft head
 * @head reads, [rows, model_head_width()]. If @head is an assistant, these are only the rows with
 * logits, and windows keep two tokens more. -EOPNOTSUPP: the architecture does not allow this. */
int model_build_tapped(const struct model *m, const struct model *head, struct graph **ret_graph,
                       struct inf_err *reterr);
/* Builds the graph of the draft head @m for @target. Like model_build_predictor(): row i of a batch
 * has a token and, in `input`, the hidden state of the token before it. The graph of an assistant
 * reads the store of @target, and a row at position p sees the tokens before p. The graph borrows
 * from both models. */
int model_build_head(const struct model *m, const struct model *target, struct graph **ret_graph,
                     struct inf_err *reterr);
/*
 * Some draft heads draft a block of tokens in one step. Returns the largest number of tokens of a
 * block, including the token before those that are drafted; 0: @m drafts one token in each step. In
 * *ret_mask, returns the token that stands for the tokens that are drafted.
 *
 * The graph of model_build_head() then has no input. The rows of a sequence are its newest token
 * and then the mask for each token that is drafted, whose logits are those of this row. The keys
 * and values of the tokens before are those of the hidden states, which model_build_store() stores.
 */
uint32_t model_head_block(const struct model *m, int32_t *ret_mask);
/* Builds the graph that stores the keys and values of tokens. Row i of a batch has the hidden state
 * of token i in `input`, and no logits are requested. Only for draft heads with blocks. */
int model_build_store(const struct model *m, struct graph **ret_graph, struct inf_err *reterr);

/* The output computed from the rows of a text. */
enum model_make {
    MODEL_MAKE_VECTOR, /* one vector per text */
    MODEL_MAKE_ROWS,   /* one vector per token */
    MODEL_MAKE_SCORE,  /* the logits of the classifier or of two tokens */
};

struct model_embed {
    enum model_make make;
    uint32_t i_task; /* for models that are adapted to tasks */
    enum pooling pooling;
    int32_t tokens[2]; /* for SCORE without a classifier: "no" and "yes" */
};

/* Returns the pooling that the model's files specify. If they specify none, returns the default:
 * the first row for classifiers, the mean for other encoders, the last row for decoders. */
enum pooling model_pooling(const struct model *m);
/* Returns the pooling for scores. It is independent of the pooling for vectors that the files
 * specify, and usually takes one row. */
enum pooling model_score_pooling(const struct model *m);
/*
 * Builds the forward pass for whole texts. All layers use the same KV store of one layer in turn,
 * because no text is continued. A batch requests one row per text: the row that the pooling takes,
 * or any row if the pooling is the mean. For MODEL_MAKE_ROWS it requests all rows. -EOPNOTSUPP: the
 * model cannot compute this. Other errors are those of model_build().
 */
int model_build_embed(struct model *m, const struct model_embed *how, struct graph **ret_graph,
                      struct inf_err *reterr);
/* Returns the number of columns of the graph's output. */
uint32_t model_embed_width(const struct model *m, const struct model_embed *how);
