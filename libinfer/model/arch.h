/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of model.h, for those who add an architecture
 *
 * An architecture is one file with one row: how its weights are bound and how its graph is built.
 * Weights are named as GGUF names them; format/ has turned other names into these.
 */

#include "core/arena.h"
#include "format/format.h"
#include "graph/graph.h"
#include "model/model.h"

/* Weights of one transformer block; those that a model does not have are zeroed. */
struct model_layer {
    struct weight attn_norm; /* [n_embd] */
    struct weight q, k, v;   /* [heads × head_dim, n_embd] */
    struct weight q_bias, k_bias, v_bias;
    struct weight q_norm, k_norm; /* [head_dim] */
    struct weight out, out_bias;  /* [n_embd, n_heads × head_dim] */
    struct weight ffn_norm;       /* [n_embd] */
    struct weight gate, up, down; /* [n_ff, n_embd], the last [n_embd, n_ff] */
    struct weight gate_bias, up_bias, down_bias;
    /* Encoders: norms behind attention and behind the feed-forward layers; q, k and v in one. */
    struct weight attn_out_norm, attn_out_norm_bias, out_norm, out_norm_bias;
    struct weight qkv, qkv_bias;
    struct weight up_gate, up_gate_bias; /* [2 n_ff, n_embd]: both in one */
    struct weight attn_norm_bias, ffn_norm_bias;
};

/* What a task adds to a matrix: b · a. */
struct model_lora {
    struct weight a, b; /* [rank, in], [out, rank]; zeroed: nothing */
};

/* Weights of a block, and one more for those of single tokens' vectors. */
#define MODEL_LORAS(n_layers)                                                                      \
    ((size_t)(n_layers) * (sizeof(struct model_layer) / sizeof(struct weight)) + 1)

struct model {
    const struct format *f;
    const struct hparams *hp; /* of f */
    const struct arch *arch;
    struct arena arena; /* layers, inv_freq, vectors that are not stored as F32 */

    struct weight embd;                    /* [n_vocab, n_embd] */
    struct weight out_norm, out_norm_bias; /* [n_embd] */
    struct weight head;                    /* [n_vocab, n_embd]; the embedding when tied */
    bool tied;
    struct weight pos_embd, type_embd;       /* [n_pos, n_embd], [n_types, n_embd] */
    struct weight embd_norm, embd_norm_bias; /* [n_embd] */
    struct weight pooler, pooler_bias;       /* [n_embd, n_embd] in front of the classifier */
    struct weight pooler_norm;               /* [n_embd], behind it */
    struct weight labels, labels_bias;       /* [n_labels, n_embd] */
    struct weight dense[HPARAMS_MAX_DENSE], dense_bias[HPARAMS_MAX_DENSE];
    struct weight multi, multi_bias; /* [multi_out, n_embd]: vectors of single tokens */
    struct model_layer *layers;      /* [n_layers] */
    struct model_lora *loras; /* [n_tasks, MODEL_LORAS], in the order of the layers' weights */
    /* While a graph is built: those of its task, of a copy of the model. */
    const struct model_lora *task_loras;
    float *inv_freq;        /* [rope_dims / 2] */
    float *inv_freq_window; /* the same of layers with a window, when theirs are others */
    float rope_mscale;
    uint64_t bytes_token;
    uint64_t madds_layers, madds_head;
};

struct arch {
    const char *name; /* as in hparams */
    int (*bind)(struct model *m, struct inf_err *reterr);
    /* Mistakes stick in the graph. */
    void (*build)(const struct model *m, struct graph *g);
    /* The same up to the rows that pooling works on, those of the last norm. NULL: it is the plain
     * decoder's. */
    graph_ref (*build_rows)(const struct model *m, struct graph *g, enum pooling pooling);
};

/* archs.c; NULL: none. */
const struct arch *arch_find(const char *name);
extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_bert, arch_modern_bert,
    arch_gemma_embedding, arch_jina_v4;

/* weights.c: what a block must have beyond q, k, v, out, gate, up, down and its two norms. Other
 * biases are bound when the file has them. */
enum weights_need {
    WEIGHTS_QKV_BIAS = 1 << 0,
    WEIGHTS_QK_NORM = 1 << 1,
};

/* Binds all weights of a dense decoder. -EBADMSG: missing, of another shape, or not part of the
 * architecture; -EOPNOTSUPP: stored in a format that nothing here computes with; -ENOMEM. */
int weights_bind(struct model *m, unsigned need, struct inf_err *reterr);
/* The same for those who have more weights: bind_all_used() is left to the caller. */
struct binder;
int weights_bind_decoder(struct binder *b, unsigned need);

/* weights.c, for those whose blocks are others: one tensor after another, then whether all of the
 * file were bound. */
struct binder {
    struct model *m;
    size_t n_bound;
    struct inf_err *err;
};

/* One row of a table of a block's weights. */
struct bind_slot {
    const char *name;
    size_t offset; /* in struct model_layer, unless another is named */
    uint32_t rows, cols;
    bool needed;
};

#define BIND_SLOT(name, field, rows, cols, needed)                                                 \
    {                                                                                              \
        name, offsetof(struct model_layer, field), rows, cols, needed                              \
    }

/* Rows @first … of a packed matrix, or elements of a vector; none of none. */
struct weight bind_rows(const struct weight *w, uint32_t first, uint32_t rows);
int bind_weight(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret);
int bind_slots(struct binder *b, uint32_t i_layer, const struct bind_slot *slots, size_t n);
/* The layers behind the pooling. */
int bind_dense(struct binder *b);
/* Encoders: q, k and v of a block, which may be one matrix. */
int bind_qkv(struct binder *b, uint32_t i_layer);
int bind_layers_new(struct binder *b);
/* Encoders: the layers, what is behind them, and whether that was all. @slots are those beside the
 * blocks, with offsets in struct model; those of no rows are not there. */
#define BIND_END(name, field, rows, cols, needed)                                                  \
    {                                                                                              \
        name, offsetof(struct model, field), rows, cols, needed                                    \
    }
int bind_encoder(struct model *m, const struct bind_slot *slots, size_t n,
                 int (*bind_layer)(struct binder *b, uint32_t i_layer), struct inf_err *reterr);
int bind_all_used(struct binder *b);

/* rope.c: inverse frequencies with all scaling applied, into m->inv_freq and m->rope_mscale. */
int rope_bind(struct model *m, struct inf_err *reterr);
/* The rotation in a layer. */
struct rope_params rope_of_layer(const struct model *m, uint32_t i_layer);

/* layers.c: parts of graphs. @x is the residual stream, [rows, n_embd]. */
/* x · wᵀ + bias, with what the task adds; @w is one of the model's layers, or m->multi. */
graph_ref layer_product(const struct model *m, struct graph *g, graph_ref x, const struct weight *w,
                        const struct weight *bias);
graph_ref layer_embed(const struct model *m, struct graph *g);
/* x + attention(norm(x)). In the last layer only rows whose logits are wanted go on. */
graph_ref layer_attention(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x);
/* x + feed_forward(norm(x)) */
graph_ref layer_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x);
/* Final norm, head, output. */
void layer_head(const struct model *m, struct graph *g, graph_ref x);
/* Attention of layer @i_layer over layer @i_store of the KV store to q, k and v of the rows @h,
 * with norms of heads and rotation where the model has them; @both_ways as in attn_params. */
graph_ref layer_attend(const struct model *m, struct graph *g, uint32_t i_layer, uint32_t i_store,
                       graph_ref h, bool both_ways);
/* Behind a model's last attention only the rows that are pooled are needed, where pooling names
 * them. */
static inline bool layer_rows_end(const struct model *m, uint32_t i_layer, enum pooling pooling)
{
    return i_layer == m->hp->n_layers - 1 && (pooling == POOLING_CLS || pooling == POOLING_LAST);
}
/* As arch.build_rows, of a plain decoder. Each layer's keys and values take the place of those of
 * the layer before it in the KV store. */
graph_ref layer_decoder_rows(const struct model *m, struct graph *g, enum pooling pooling);
/* The whole of a plain decoder: embedding, layers in order, head. */
void layer_decoder(const struct model *m, struct graph *g);
