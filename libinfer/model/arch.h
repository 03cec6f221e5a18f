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
};

struct model {
    const struct format *f;
    const struct hparams *hp; /* of f */
    const struct arch *arch;
    struct arena arena; /* layers, inv_freq, vectors that are not stored as F32 */

    struct weight embd;     /* [n_vocab, n_embd] */
    struct weight out_norm; /* [n_embd] */
    struct weight head;     /* [n_vocab, n_embd]; the embedding when tied */
    bool tied;
    struct model_layer *layers; /* [n_layers] */
    float *inv_freq;            /* [rope_dims / 2] */
    float rope_mscale;
    uint64_t bytes_token;
    uint64_t madds_layers, madds_head;
};

struct arch {
    const char *name; /* as in hparams */
    int (*bind)(struct model *m, struct inf_err *reterr);
    /* Mistakes stick in the graph. */
    void (*build)(const struct model *m, struct graph *g);
};

/* archs.c; NULL: none. */
const struct arch *arch_find(const char *name);
extern const struct arch arch_llama, arch_qwen2, arch_qwen3;

/* weights.c: what a block must have beyond q, k, v, out, gate, up, down and its two norms. Other
 * biases are bound when the file has them. */
enum weights_need {
    WEIGHTS_QKV_BIAS = 1 << 0,
    WEIGHTS_QK_NORM = 1 << 1,
};

/* Binds all weights of a dense decoder. -EBADMSG: missing, of another shape, or not part of the
 * architecture; -EOPNOTSUPP: stored in a format that nothing here computes with; -ENOMEM. */
int weights_bind(struct model *m, unsigned need, struct inf_err *reterr);

/* rope.c: inverse frequencies with all scaling applied, into m->inv_freq and m->rope_mscale. */
int rope_bind(struct model *m, struct inf_err *reterr);

/* layers.c: parts of graphs. @x is the residual stream, [rows, n_embd]. */
graph_ref layer_embed(const struct model *m, struct graph *g);
/* x + attention(norm(x)). In the last layer only rows whose logits are wanted go on. */
graph_ref layer_attention(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x);
/* x + feed_forward(norm(x)) */
graph_ref layer_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer, graph_ref x);
/* Final norm, head, output. */
void layer_head(const struct model *m, struct graph *g, graph_ref x);
/* The whole of a plain decoder: embedding, layers in order, head. */
void layer_decoder(const struct model *m, struct graph *g);
