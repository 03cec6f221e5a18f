/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the internals of model.h that an architecture uses.
 *
 * An architecture is one file with one struct arch: the functions that bind its weights and build
 * its graph. Weights have their GGUF names; format/ has converted other names.
 */

#include "core/arena.h"
#include "format/format.h"
#include "graph/graph.h"
#include "model/model.h"

/* The weights of one transformer block. Weights that a model does not have are zeroed. */
struct model_layer {
    struct weight attn_norm; /* [n_embd] */
    struct weight q, k, v;   /* [heads × head_dim, n_embd] */
    struct weight q_bias, k_bias, v_bias;
    struct weight q_norm, k_norm; /* [head_dim] */
    struct weight out, out_bias;  /* [n_embd, n_heads × head_dim] */
    struct weight ffn_norm;       /* [n_embd] */
    struct weight gate, up, down; /* [n_ff, n_embd]; down is [n_embd, n_ff] */
    struct weight gate_bias, up_bias, down_bias;
    /* Encoders: norms after attention and after the feed-forward layers; q, k and v in one
     * matrix. */
    struct weight attn_out_norm, attn_out_norm_bias, out_norm, out_norm_bias;
    struct weight qkv, qkv_bias;
    struct weight up_gate, up_gate_bias; /* [2 n_ff, n_embd]: both in one matrix */
    struct weight attn_norm_bias, ffn_norm_bias;
};

/* The product b · a that a task adds to a matrix. */
struct model_lora {
    struct weight a, b; /* [rank, in] and [out, rank]; zeroed: none */
};

/* Number of low-rank pairs: those of all blocks, and one for the projection of token vectors. */
#define MODEL_LORAS(n_layers)                                                                      \
    ((size_t)(n_layers) * (sizeof(struct model_layer) / sizeof(struct weight)) + 1)

struct model {
    const struct format *f;
    const struct hparams *hp; /* owned by f */
    const struct arch *arch;
    struct arena arena; /* memory of layers, inv_freq, and vectors that are not stored as F32 */

    struct weight embd;                    /* [n_vocab, n_embd] */
    struct weight out_norm, out_norm_bias; /* [n_embd] */
    struct weight head;                    /* [n_vocab, n_embd]; the embedding if embedding and head
                                              are tied */
    bool tied;
    struct weight head_pair; /* [2, n_embd]: copy of the two rows of `head` for head_pair_tokens */
    int32_t head_pair_tokens[2]; /* the newest pair of tokens for which scores were requested */
    struct weight pos_embd, type_embd;       /* [n_pos, n_embd], [n_types, n_embd] */
    struct weight embd_norm, embd_norm_bias; /* [n_embd] */
    struct weight pooler, pooler_bias;       /* [n_embd, n_embd], before the classifier */
    struct weight pooler_norm;               /* [n_embd], after the pooler */
    struct weight labels, labels_bias;       /* [n_labels, n_embd] */
    struct weight dense[HPARAMS_MAX_DENSE], dense_bias[HPARAMS_MAX_DENSE];
    struct weight multi, multi_bias; /* [multi_out, n_embd]: projection to vectors of single
                                        tokens */
    struct model_layer *layers;      /* [n_layers] */
    struct model_lora *loras; /* [n_tasks, MODEL_LORAS], in the order of the layers' weights */
    /* While a graph is built: the low-rank pairs of the graph's task, set in a copy of the
     * model. */
    const struct model_lora *task_loras;
    float *inv_freq;        /* [rope_dims / 2] */
    float *inv_freq_window; /* for layers with a window, if their frequencies differ */
    float rope_mscale;
    uint64_t bytes_token;
    uint64_t madds_layers, madds_head;
};

struct arch {
    const char *name; /* as in hparams */
    int (*bind)(struct model *m, struct inf_err *reterr);
    /* Errors are kept in the graph. */
    void (*build)(const struct model *m, struct graph *g);
    /* Builds the graph only up to the last norm; the caller adds the pooling. NULL: use
     * layer_decoder_rows(). */
    graph_ref (*build_rows)(const struct model *m, struct graph *g, enum pooling pooling);
};

/* archs.c: finds an architecture by its name; NULL: unknown. */
const struct arch *arch_find(const char *name);
extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_bert, arch_modern_bert,
    arch_gemma_embedding, arch_jina_v4;

/* weights.c: weights that a block must have besides q, k, v, out, gate, up, down and its two norms.
 * Other biases are bound if the file has them. */
enum weights_need {
    WEIGHTS_QKV_BIAS = 1 << 0,
    WEIGHTS_QK_NORM = 1 << 1,
};

/* Binds all weights of a dense decoder. -EBADMSG: a tensor is missing, has another shape, or is not
 * part of the architecture; -EOPNOTSUPP: a tensor is stored in a number format that this library
 * cannot compute with; -ENOMEM. */
int weights_bind(struct model *m, unsigned need, struct inf_err *reterr);
/* Does what weights_bind() does, for architectures with more weights, which call bind_all_used()
 * afterwards. */
struct binder;
int weights_bind_decoder(struct binder *b, unsigned need);

/* weights.c, for architectures with other blocks: the state of binding one tensor after another. At
 * the end, bind_all_used() checks that all tensors of the file were bound. */
struct binder {
    struct model *m;
    size_t n_bound;
    struct inf_err *err;
};

/* One row of a table of a block's weights. */
struct bind_slot {
    const char *name;
    size_t offset; /* in struct model_layer, or with BIND_END in struct model */
    uint32_t rows, cols;
    bool needed;
};

#define BIND_SLOT(name, field, rows, cols, needed)                                                 \
    {                                                                                              \
        name, offsetof(struct model_layer, field), rows, cols, needed                              \
    }

/* Returns @rows rows, from row @first on, of a matrix that joins several matrices. If @w is a
 * vector, returns @rows elements instead. If @w is zeroed, returns a zeroed weight. */
struct weight bind_rows(const struct weight *w, uint32_t first, uint32_t rows);
int bind_weight(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret);
int bind_slots(struct binder *b, uint32_t i_layer, const struct bind_slot *slots, size_t n);
/* Binds the dense layers after the pooling. */
int bind_dense(struct binder *b);
/* Encoders: binds q, k and v of a block, which may be one matrix. */
int bind_qkv(struct binder *b, uint32_t i_layer);
int bind_layers_new(struct binder *b);
/* Encoders: binds the layers and everything after them, and checks that all tensors were bound.
 * @slots are the weights outside the blocks, with offsets in struct model; slots with 0 rows are
 * skipped. */
#define BIND_END(name, field, rows, cols, needed)                                                  \
    {                                                                                              \
        name, offsetof(struct model, field), rows, cols, needed                                    \
    }
int bind_encoder(struct model *m, const struct bind_slot *slots, size_t n,
                 int (*bind_layer)(struct binder *b, uint32_t i_layer), struct inf_err *reterr);
int bind_all_used(struct binder *b);

/* rope.c: computes inverse frequencies, with all scaling applied, into m->inv_freq and
 * m->rope_mscale. */
int rope_bind(struct model *m, struct inf_err *reterr);
/* Returns the parameters of the rotation in a layer. */
struct rope_params rope_of_layer(const struct model *m, uint32_t i_layer);

/* layers.c: parts of graphs. @x is the residual stream, [rows, n_embd]. */
/* Computes x · wᵀ + bias, plus the product of x with the matrices of the task. @w is a weight of
 * the model's layers, or m->multi. */
graph_ref layer_product(const struct model *m, struct graph *g, graph_ref x, const struct weight *w,
                        const struct weight *bias);
graph_ref layer_embed(const struct model *m, struct graph *g);
/* Builds the attention of layer @i_layer: computes q, k and v from the rows @h, applies norms of
 * heads and rotation if the model has them, and keeps k and v in layer @i_store of the KV store.
 * @both_ways is the member of attn_params. */
graph_ref layer_attend(const struct model *m, struct graph *g, uint32_t i_layer, uint32_t i_store,
                       graph_ref h, bool both_ways);
/* Returns whether only the pooled rows are needed after this layer's attention. This is the case in
 * the last layer, if the pooling takes the first or the last row. */
static inline bool layer_rows_end(const struct model *m, uint32_t i_layer, enum pooling pooling)
{
    return i_layer == m->hp->n_layers - 1 && (pooling == POOLING_CLS || pooling == POOLING_LAST);
}
/* Implements the function build_rows of a plain decoder. In the KV store, each layer's keys and
 * values overwrite those of the layer before it. */
graph_ref layer_decoder_rows(const struct model *m, struct graph *g, enum pooling pooling);
/* Builds a complete plain decoder: embedding, layers in order, head. */
void layer_decoder(const struct model *m, struct graph *g);
