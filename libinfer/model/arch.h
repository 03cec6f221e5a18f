/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the internals of model.h that an architecture uses.
 *
 * An architecture is one file arch-<family>.c with one struct arch. A slot is the place of one
 * weight in the model or in each layer, such as the matrix that computes the queries. The parts of
 * an architecture belong in these places:
 *  - names in files, hyperparameters and their keys, refused keys, weights: the member `desc`
 *    (format/arch-desc.h), as tables in the architecture's file. The lists of weights that many
 *    architectures have are in model/arch-rows.h.
 *  - a new hyperparameter: struct hparams (format/hparams.h), with a limit in format/hparams.c and
 *    a place in format/identity.c.
 *  - a new weight: an id in enum slot (model/slots.h), and if its shape is new, a row in
 *    enum arch_dim and in model/dims.c.
 *  - the graph: layer_decoder() builds plain decoders from the weights that a model has; other
 *    architectures have a function `build`, and use the parts of layers.c.
 *  - state of a new shape: model/groups.c.
 * The architecture is listed in model/archs.c.
 */

#include "core/arena.h"
#include "format/format.h"
#include "graph/graph.h"
#include "model/model.h"
#include "model/arch-rows.h"

/* The product b · a that a task adds to a matrix. */
struct model_lora {
    struct weight a, b; /* [rank, in] and [out, rank]; zeroed: none */
};

struct model_head; /* head.h */
struct model_taps;

struct model {
    const struct format *f;
    const struct hparams *hp; /* owned by f */
    const struct arch *arch;
    struct arena arena; /* memory of weights, inv_freq, and vectors that are not stored as F32 */

    /* [rows, n_slots]: the weights of the layers in the order of the architecture's table, then the
     * weights outside the layers, and then those of the layer that predicts a further token
     * (hparams_predict_row()). Weights that a model does not have are zeroed. */
    struct weight *weights;
    bool predicts; /* the model has such a layer */
    /* The halves of SLOT_PREDICT_JOIN: [n_embd, n_embd] each, for the embedding and for the hidden
     * state. */
    struct weight predict_join[2];
    bool exports;  /* while a graph is built: it exports the hidden states */
    bool assisted; /* while a graph is built: an assistant of Gemma 4 drafts for the
                      model (model_build_tapped()) */
    /* [n_layers]: for layers with keys of their own, the head_dim numbers by which the norm of
     * queries was multiplied (balance.c). A zeroed entry: the norm was not changed; NULL: no norm
     * was changed. */
    struct weight *query_factors;
    const struct model_head *head; /* NULL: the model is no draft head */
    struct model_taps *taps;    /* while a graph is built: what a draft head reads; NULL: nothing */
    uint8_t slot_index[SLOT_N]; /* the number of a slot in the table; SLOT_NONE: not in the table */
    bool tied;                  /* the head is the embedding */
    struct weight head_pair;    /* [2, n_embd]: copy of the rows of the head for head_pair_tokens */
    int32_t head_pair_tokens[2];       /* the pair of tokens of the last request for scores */
    struct weight pooler, pooler_bias; /* [n_embd, n_embd], before the classifier */
    struct weight pooler_norm;         /* [n_embd], after the pooler */
    struct weight labels, labels_bias; /* [n_labels, n_embd] */
    struct weight dense[HPARAMS_MAX_DENSE], dense_bias[HPARAMS_MAX_DENSE];
    struct weight multi, multi_bias; /* [multi_out, n_embd]: projection to vectors of single
                                        tokens */
    struct model_lora *loras;        /* [n_tasks, MODEL_LORAS] */
    /* While a graph is built: the low-rank pairs of the graph's task, set in a copy of the
     * model. */
    const struct model_lora *task_loras;
    float *inv_freq;        /* [rope_dims / 2] */
    float *inv_freq_window; /* for layers with a window, if their frequencies differ */
    float rope_mscale;
    uint64_t bytes_token;
    uint64_t madds_layers, madds_head;
};

#define SLOT_NONE UINT8_MAX

struct binder;

struct arch {
    struct arch_desc desc;
    /* Binds weights that the table of slots does not describe. May be NULL. */
    int (*bind)(struct binder *b);
    /* Builds the whole graph. Errors are kept in the graph. NULL: the model only computes
     * vectors. */
    void (*build)(const struct model *m, struct graph *g);
    /* Builds the layer that predicts a further token, from its joined input @x to its result before
     * the last norm. The layer is at hparams_predict_row(). NULL: such layers are not supported. */
    graph_ref (*build_predictor)(const struct model *m, struct graph *g, graph_ref x);
    /* Builds the graph only up to the last norm; the caller adds the pooling. NULL: use
     * layer_decoder_rows(). */
    graph_ref (*build_rows)(const struct model *m, struct graph *g, enum pooling pooling);
    /* Draft heads: builds what model_build_head() and model_build_store() return, without groups of
     * state. */
    void (*build_head)(const struct model *m, const struct model *target, struct graph *g);
    void (*build_store)(const struct model *m, struct graph *g);
    /* Does what model_head_fits() does. NULL: the head reads hidden states of layers. */
    int (*head_fits)(const struct model *m, const struct model *target, struct inf_err *reterr);
};

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_bert, arch_modern_bert,
    arch_gemma_embedding, arch_jina_v4, arch_qwen2_moe, arch_qwen3_moe, arch_qwen3_next,
    arch_qwen35, arch_gemma2, arch_gemma3, arch_gemma3n, arch_gemma4, arch_gpt_oss, arch_bitnet,
    arch_eagle3, arch_dflash, arch_assistant;

/* weights.c: returns the weight of a slot in layer @i_layer, or outside the layers. If the
 * architecture or the layer does not have it, the weight is zeroed. */
const struct weight *layer_w(const struct model *m, uint32_t i_layer, enum slot slot);
const struct weight *model_w(const struct model *m, enum slot slot);
/* Replaces the weight of a slot that the table of the architecture has. */
void layer_set(struct model *m, uint32_t i_layer, enum slot slot, const struct weight *w);
/* Returns the number of members of m->weights. */
size_t model_n_weights(const struct model *m);
/* Number of low-rank pairs of a task: one for each weight, and one for the projection of token
 * vectors. */
size_t model_n_loras(const struct model *m);

/* The state of binding one tensor after another. */
struct binder {
    struct model *m;
    bool *bound; /* [n_tensors] */
    struct inf_err *err;
    /* The order of columns (quant/coded.h) that was read last. Matrices with the same input share
     * it. */
    const uint32_t *order;
    uint32_t n_order;
    /* The rotation of inputs that was read last, and the tensor of its angles. The matrices gate
     * and up of experts share both, so that one node of the graph prepares their input. */
    const struct turn_params *turn;
    const struct format_tensor *theta;
};

/* Binds all weights of a model. -EBADMSG: a tensor is missing, has another shape, or is not part of
 * the architecture; -EOPNOTSUPP: a tensor is stored in a number format that this library cannot
 * compute with; -ENOMEM. */
int weights_bind(struct model *m, struct inf_err *reterr);
/* Binds one matrix, or a vector if @rows is 1. A missing tensor that is not needed leaves *ret as
 * it is. */
int bind_weight(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret);
/* tensors.c: binds the weight of a slot in a layer; @name is the name of its tensor. */
int bind_slot(struct binder *b, const struct arch_slot *slot, uint32_t i_layer, const char *name,
              struct weight *ret);
/* tensors.c: returns @rows rows, from row @first on, of a matrix that joins several matrices, or of
 * each expert's matrix. If @w is a vector, returns @rows elements instead. If @w is zeroed, returns
 * a zeroed weight. */
struct weight bind_rows(const struct weight *w, uint32_t first, uint32_t rows);
/* Adds the bytes of the weight @s (including its planes, see graph/weight.h) and its multiply-adds
 * to the model's numbers for one token. @flags are those of its slot. */
void bind_count(struct model *m, const struct weight *s, unsigned flags);
/* weights.c: writes the name of the tensor of a slot; @i_row is a layer, or hparams_predict_row().
 */
void bind_name(const struct hparams *hp, const struct arch_slot *slot, uint32_t i_row, char *name,
               size_t size);
/* weights.c: sets and counts the weight of a slot in a layer. */
void bind_put(struct binder *b, uint32_t i_layer, enum slot slot, const struct weight *w);
/* predictor.c: divides the columns of a matrix into @n equal parts: to[0] … to[n - 1], n at most
 * BIND_PARTS. A rotation of the input is divided, too. -EOPNOTSUPP: its groups reach across the
 * parts; -ENOMEM. */
#define BIND_PARTS HPARAMS_TAPS
int bind_split(struct binder *b, const struct weight *w, uint32_t n, struct weight *to);
/* bind-interleaved.c: a function for the member `bind` of struct arch. Binds the experts of gpt-oss
 * that the table of slots does not describe. Errors are those of weights_bind(). */
int bind_interleaved(struct binder *b);
/* bind-ternary.c: returns whether the weight of a slot is ternary in this model. */
bool bind_is_ternary(const struct binder *b, const struct arch_slot *slot);
/* Binds the ternary matrix @t. -EOPNOTSUPP: it is stored in another way than config.json says, or
 * its sides are not multiples of 4; -EBADMSG: a tensor is missing or has another shape; -ENOMEM. */
int bind_ternary(struct binder *b, const struct format_tensor *t, uint32_t rows, uint32_t cols,
                 struct weight *ret);
/* bind-mlx.c: returns whether a tensor has the codes of a format of MLX. */
bool bind_is_mlx(const struct format_tensor *t);
/* Where bind_mlx_planes() finds the other tensors of a matrix. find() returns NULL if there is no
 * tensor of this name. */
struct mlx_planes {
    const struct format_tensor *(*find)(const void *data, const char *name);
    const void *data;
    struct inf_err *err;
};
/* Binds such a matrix, or the matrices of experts, to *@w, in which the caller has set name, data,
 * rows, cols and n_experts. -EOPNOTSUPP: the kind of codes, groups or scales is not supported;
 * -EBADMSG: a tensor is missing or has another shape. */
int bind_mlx_planes(const struct mlx_planes *from, const struct format_tensor *t, struct weight *w);
/* Does this with the tensors of the model's file, and marks them as bound. */
int bind_mlx(struct binder *b, const struct format_tensor *t, struct weight *w);
/* bind-coded.c: binds the matrix @name ("blk.0.attn_q.weight") of a model with coded matrices
 * (quant/coded.h). @t is the tensor of this name, or NULL. Writes the matrix to *ret_coded. Returns
 * 1 if the matrix is stored as floats, or is missing. -EBADMSG: a tensor is missing or has another
 * shape; -EOPNOTSUPP: the matrix is coded in a way that is not supported; -ENOMEM. */
int bind_coded(struct binder *b, const char *name, const struct format_tensor *t, uint32_t rows,
               uint32_t cols, struct coded *ret_coded);
/* bind-bytes.c: does the same for the 4-bit codes of bitsandbytes. */
int bind_coded_4bit(struct binder *b, const char *name, const struct format_tensor *t,
                    struct coded *c);
/* bind-turn.c: binds the rotation of the input of the matrix @name to w->turn, if the file has one.
 * -EBADMSG: a tensor is missing or malformed; -EOPNOTSUPP: it has another type, or groups or rounds
 * that are not supported; -ENOMEM. */
int bind_turn(struct binder *b, const char *name, struct weight *w);
/* Finds the tensor @name with @end instead of ".weight", and marks it as bound. NULL: there is
 * none. */
const struct format_tensor *bind_coded_find(struct binder *b, const char *name, const char *end);
/* bind-embed.c: binds the classifier with the layer before it, and the dense layers after the
 * pooling. */
int bind_labels(struct binder *b);
int bind_dense(struct binder *b);

/* dims.c: returns a dimension of a weight in layer @i_layer. */
uint32_t dim_of(const struct hparams *hp, uint32_t i_layer, enum arch_dim dim);
/* Returns whether layer @i_layer has a weight with the mask @in (enum arch_layers). */
bool layer_is_in(const struct hparams *hp, uint32_t i_layer, unsigned in);

/* groups.c: adds the groups of state of a model to its graph, if the model needs several. */
void groups_add(const struct model *m, struct graph *g);
/* Returns the place where layer @i_layer keeps its state. */
struct state_place group_place(const struct model *m, uint32_t i_layer);

/* rope.c: computes inverse frequencies, with all scaling applied, into m->inv_freq and
 * m->rope_mscale. */
int rope_bind(struct model *m, struct inf_err *reterr);
/* GGUF files have the scaling of Llama 3 only as a tensor of divisors. If the model has the
 * frequencies of this scaling, writes its settings to *@hp, and returns true. */
bool rope_find_llama3(const struct model *m, struct hparams *hp);
/* Does the same if the tensor says which pairs of a head are rotated, as in files of Gemma 4. */
bool rope_find_pairs(const struct model *m, struct hparams *hp);
/* Returns the parameters of the rotation in a layer. */
struct rope_params rope_of_layer(const struct model *m, uint32_t i_layer);

/* balance.c: multiplies the norms of keys by powers of two, and divides those of queries by them,
 * so that keys lose less precision if they are stored in few bits. If keys are stored as floats,
 * the results do not change. Call it after rope_bind(). Returns 0 or -ENOMEM. */
int balance_norms(struct model *m, struct inf_err *reterr);
/* Finds the exponents of these factors for the norms @q and @k, [head_dim]. Writes [head_dim]
 * exponents. Returns false if a balanced key could be too large for F16. */
bool balance_exponents(const float *q, const float *k, const struct rope_params *rope,
                       uint32_t head_dim, int8_t *ret_exponents);

/* layers.c: parts of graphs. @x is the residual stream, [rows, n_embd]. */
/* Computes x · wᵀ + bias, plus the product of x with the matrices of the task. @w is a weight of
 * the model's layers, or m->multi. */
graph_ref layer_product(const struct model *m, struct graph *g, graph_ref x, const struct weight *w,
                        const struct weight *bias);
/* Does what layer_product() does, for the weights of two slots. */
graph_ref layer_linear(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                       enum slot w, enum slot bias);
/* Normalizes rows with the weight of a slot. If the layer does not have it, returns @x. */
graph_ref layer_norm(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                     enum slot norm);
graph_ref layer_embed(const struct model *m, struct graph *g);
/* Begins layer @i_layer of a decoder, whose input is @x. */
void layer_begin(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x);
/* Applies the norm of a slot to each head, if the layer has it, and then the rotation. */
graph_ref layer_heads(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                      enum slot norm);
/* Returns the parameters of attention in layer @i_layer, with the place of the layer's state. */
struct attn_params layer_attn_params(const struct model *m, uint32_t i_layer);
/* Builds the attention of layer @i_layer: computes q, k and v from the rows @h, applies norms of
 * heads and rotation if the model has them, and keeps k and v as @attn says. */
graph_ref layer_attend(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h,
                       const struct attn_params *attn);
/* Returns the parameters for graphs that compute vectors. In the KV store, each layer's keys and
 * values overwrite those of the layer before it. */
struct attn_params layer_attn_once(const struct model *m, uint32_t i_layer);
/* Builds a gated or plain feed-forward part from the normalized rows @h. */
graph_ref layer_gated_ff(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h);
/* Builds a feed-forward part from the normalized rows @h, with or without experts. */
graph_ref layer_ff(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h);
/* Builds a whole layer of a plain decoder or encoder on @x. If @ends, only rows with requested
 * logits remain after attention. */
graph_ref layer_whole(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                      const struct attn_params *attn, bool ends);
/* Adds @h, the result of attention or of the feed-forward part, to @x. If the layer has the norm
 * @norm, @h is normalized first. */
graph_ref layer_add(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x,
                    graph_ref h, enum slot norm);
/* Appends the final norm, the head, the limit of the logits (final_softcap) and the output. If the
 * graph exports hidden states, @x has all rows. */
void layer_head(const struct model *m, struct graph *g, graph_ref x);
/* Returns whether only the pooled rows are needed after this layer's attention. This is the case in
 * the last layer, if the pooling takes the first or the last row. */
static inline bool layer_rows_end(const struct model *m, uint32_t i_layer, enum pooling pooling)
{
    return i_layer == m->hp->n_layers - 1 && (pooling == POOLING_CLS || pooling == POOLING_LAST);
}
/* Implements the function build_rows of a plain decoder or encoder with norms before its parts. */
graph_ref layer_decoder_rows(const struct model *m, struct graph *g, enum pooling pooling);
/* Builds a complete plain decoder: embedding, layers in order, head. */
void layer_decoder(const struct model *m, struct graph *g);
/* experts.c: builds a feed-forward part with experts. layer_experts() computes the scores of the
 * experts from the rows @h, and layer_experts_of() takes other scores. */
graph_ref layer_experts_of(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h,
                           graph_ref scores);
graph_ref layer_experts(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref h);
