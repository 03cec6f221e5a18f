/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds the hyperparameters of a model, from GGUF metadata or config.json.
 *
 * Code that fills them in must end with hparams_check(). Afterwards no divisor is 0, and the
 * product of any two counts, multiplied by the size of a float, fits 64 bits.
 */

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"

#define HPARAMS_MAX_LAYERS 1024

enum rope_scaling {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,
    ROPE_SCALING_LLAMA3,
    ROPE_SCALING_YARN,
    ROPE_SCALING_NTK,
};

/* The ways in which the ternary matrices of layers are stored (BitNet b1.58). */
enum hparams_ternary {
    TERNARY_NONE,
    TERNARY_MULTIPLIED, /* packed (quant/bitnet.h); the tensor weight_scale is their factor */
    TERNARY_DIVIDED,    /* packed; weight_scale is the inverse of their factor */
    TERNARY_ONLINE,     /* stored as ordinary weights, which are rounded when the model is opened */
};

/* The formats of coded matrices in a Hugging Face directory (quant/coded.h). */
enum hparams_coded {
    CODED_NONE,
    CODED_GPTQ,
    CODED_GPTQ_V2, /* zeros are stored as they are; in CODED_GPTQ, minus 1 */
    CODED_AWQ,
    CODED_PARO,    /* ParoQuant: AWQ, or codes of MLX, with rotated inputs (graph/params.h) */
    CODED_TENSORS, /* compressed-tensors */
    CODED_FP8,     /* FP8 as in the files of DeepSeek */
    CODED_4BIT,    /* bitsandbytes */
};

/* Ways to compute one vector from the rows of a text. */
enum pooling {
    POOLING_NONE, /* the file names no pooling */
    POOLING_MEAN,
    POOLING_CLS, /* the first row */
    POOLING_LAST,
};

/* Limit of the number of dense layers (after the pooling, or for token vectors). */
#define HPARAMS_MAX_DENSE 4
/* Limits: tasks of a model, and bytes of a task name including its NUL. */
#define HPARAMS_MAX_TASKS 8
#define HPARAMS_TASK_NAME 32

/* Kinds of the attention part of a layer. */
enum layer_kind {
    LAYER_ATTENTION, /* attention, with the window of the model if it has one */
    LAYER_FULL,      /* attention without a window */
    LAYER_RECURRENT, /* no attention, but a state of a fixed size */
    LAYER_PREDICTS,  /* attention without a window, in the layer that predicts a further token */
};

/* Holds what differs between the layers of some models. Counts that are 0 have the value of the
 * model. */
struct hparams_layer {
    uint8_t kind;    /* enum layer_kind */
    uint8_t sparse;  /* the feed-forward part has experts */
    uint16_t shared; /* 1 + the earlier layer whose keys and values this layer reads; 0: it has its
                        own */
    uint32_t n_heads, n_kv_heads, head_dim, n_ff;
    /* Gemma 3n: the limit of a row's gates is their mean plus this many standard deviations. The
     * limit is subtracted from each gate, and negative results become 0. -INFINITY: gates are not
     * changed. */
    float cutoff;
};

/* Settings of feed-forward parts with experts. */
struct hparams_experts {
    uint32_t n, n_used; /* experts of a layer, and how many of them a row uses; n is 0: the model
                           has no experts */
    uint32_t ff;        /* width of an expert */
    uint32_t shared_ff; /* width of the expert that all rows use; 0: there is none */
    enum route_score score;
    bool norm_topk; /* the weights of the selected experts are divided by their sum */
    float scale;    /* factor of these weights; 0: 1 */
    uint32_t step;  /* Hugging Face: layers i with (i + 1) % step = 0 have experts; 0: all layers */
};

/* Settings of recurrent layers (struct delta_params). */
struct hparams_delta {
    uint32_t n_k_heads, n_v_heads, k_dim, v_dim;
    uint32_t n_taps; /* rows that a convolution reads */
    bool interleaved;
    bool negated;
};

/* Settings of Gemma 3n and Gemma 4. */
struct hparams_gemma {
    uint32_t head_dim_full, head_dim_window, n_kv_heads_full;
    uint32_t n_shared;  /* number of layers at the end that read keys and values of an earlier
                           layer */
    uint32_t per_layer; /* width of per-layer embeddings; 0: there are none */
    bool k_is_v;        /* in full layers, the matrix of the keys also computes the values */
    bool double_shared; /* layers that share keys and values have feed-forward parts of twice the
                           width */
    uint32_t n_vocab;   /* rows of the table of per-layer embeddings; 0: the vocabulary size */
    uint32_t laurel_rank;
    float cutoff;       /* the largest cutoff of a layer; below 0 if the file has no list of them */
    bool correct_scale; /* the first stream is scaled before per-layer embeddings are applied to
                           it */
};

/* The largest number of layers of the other model that a draft head reads. */
#define HPARAMS_TAPS 16u
/* The number of them that heads of EAGLE-3 read. */
#define HPARAMS_EAGLE3_TAPS 3u

/* Settings of a draft head: layers that predict tokens of another model from hidden states of that
 * model (model/arch-eagle3.c, model/arch-dflash.c, model/arch-gemma4-assistant.c). */
struct hparams_head {
    bool is_head;
    bool norm_residual; /* the residual stream begins with the normalized hidden state */
    bool norm_input;    /* the hidden states are normalized before they are joined */
    bool offsets;       /* the table of tokens has differences, not tokens */
    uint32_t n_target;  /* width of the other model */
    uint32_t n_vocab;   /* tokens that the head can predict */
    /* The layers of the other model whose inputs the head reads, n_taps of them. All 0: the third
     * layer, the one in the middle, and the third from the end. */
    uint32_t n_taps, taps[HPARAMS_TAPS];
    uint32_t block; /* tokens of a block that the head drafts in one step, including the token
                       before it; 0: a step drafts one token */
    uint32_t mask;  /* heads with blocks: the token that stands for a token that is drafted */
    bool has_mask;  /* the file names this token */
    /* Clusters into which the tokens are divided evenly, and how many of them a row scores token by
     * token. 0: there are no clusters. */
    uint32_t n_clusters, n_clusters_used;
};

/* The parallel residual streams of Gemma 3n. */
#define HPARAMS_STREAMS 4u

/* Settings of models that compute vectors or scores. */
struct hparams_embed {
    bool encoder;       /* attention is bidirectional */
    bool gated;         /* encoders: the feed-forward layers are gated units */
    uint32_t pos_first; /* encoders: row of the position table for position 0 */
    bool pos_skips;     /* encoders: positions do not count tokens with the id pos_first - 1
                           (padding); all padding tokens use the row before pos_first */
    uint32_t n_pos;     /* rows of the position table; 0: the model has rotary positions */
    uint32_t n_types;   /* number of token types; 0: none */
    enum pooling pooling;
    uint32_t n_labels; /* labels of a classifier; 0: there is no classifier */
    bool has_head;     /* there is a layer with head_act before the classifier */
    enum graph_act head_act;
    enum pooling score_pooling; /* input of the classifier; NONE: the default */
    uint32_t n_dense;           /* dense layers after the pooling: "dense.0.weight"… */
    enum graph_act dense_act[HPARAMS_MAX_DENSE];
    bool dense_linear[HPARAMS_MAX_DENSE]; /* the layer has no activation */
    uint32_t dense_out[HPARAMS_MAX_DENSE];
    uint32_t max_tokens; /* default limit of the tokens of a text; 0: n_ctx_train */
    bool raw;            /* vectors are not normalized */
    uint32_t multi_out;  /* width of token vectors; 0: n_embd */
    bool late; /* the model only does late interaction: dense layers apply to token vectors, and
                  nothing is pooled */
    /* Each task has low-rank matrices, whose products are added to the matrices of the layers. A
     * task name contains no dot and no slash. */
    uint32_t n_tasks;
    char tasks[HPARAMS_MAX_TASKS][HPARAMS_TASK_NAME];
    uint32_t lora_rank;
    float lora_scale;
};

struct hparams {
    char arch[32];  /* name of the description (format/arch-desc.h): "llama", "qwen2" */
    char name[128]; /* what the file calls the model */
    uint32_t n_vocab, n_ctx_train, n_embd, n_layers, n_ff;
    uint32_t n_heads, n_kv_heads, head_dim;
    float norm_eps;
    bool norms_add_one; /* the weight of a norm is 1 + the stored value */
    float embd_scale;   /* factor on the rows of the embedding; 0: 1 */
    float attn_scale;   /* factor on q·k; 0: 1/sqrt(head_dim) */

    enum rope_style rope_style;
    uint32_t rope_dims;
    uint32_t rope_dims_window; /* in layers with a window; 0: rope_dims */
    uint32_t rope_pairs;    /* pairs of a head that are rotated, beginning with the first; 0: all of
                               rope_dims */
    float rope_partial;     /* Hugging Face: the part of a head that is rotated */
    bool rope_proportional; /* Hugging Face: the rotated part has the frequencies of the whole head
                             */
    float rope_theta;
    float rope_theta_window; /* base for layers with a window, which then have no scaling; 0:
                                rope_theta and the scaling apply to all layers */
    enum rope_scaling rope_scaling;
    float rope_factor;
    float rope_attn_factor; /* factor on sin and cos, in addition to yarn's factor; 0: 1 */
    uint32_t rope_ctx_orig; /* llama3, yarn */
    float rope_low_freq_factor, rope_high_freq_factor; /* llama3 */
    float yarn_beta_fast, yarn_beta_slow;
    float yarn_attn_factor; /* factor on sin and cos; 0: computed from the scaling factor,
                               yarn_mscale and yarn_mscale_all_dim */
    float yarn_mscale, yarn_mscale_all_dim; /* 0: not given */
    bool yarn_no_truncate; /* yarn: the ends of the ramp are not rounded to whole dimensions */

    /* Sliding window in tokens, including the row's own token; 0: none. With bidirectional
     * attention each side has this window. */
    uint32_t window;
    /* [n_layers]. If the file has layers that only predict further tokens, the first of them is at
     * hparams_predict_row(). */
    struct hparams_layer layers[HPARAMS_MAX_LAYERS];
    uint32_t n_extra_layers; /* layers after the others that only predict further tokens; the first
                                of them can draft tokens (model_build_predictor()), and further ones
                                are not used */
    /* The number of pairs of a head that each of the three positions rotates, and then 0. Only new
     * GGUF files need them, because in a text without images the positions are equal. */
    uint32_t rope_sections[4];
    uint32_t full_every; /* of each group of this many layers, only the last has attention; 0: the
                            file has another key for this */

    struct hparams_experts experts;
    struct hparams_delta delta;
    struct hparams_gemma gemma;
    struct hparams_head head;
    float attn_softcap, final_softcap; /* c: a score or logit x becomes c × tanh(x / c); 0: none */
    enum graph_act act;
    enum hparams_ternary ternary;
    enum hparams_coded coded;
    uint32_t coded_group; /* columns that share a scale; 0: all columns, or as many as the shapes of
                             the tensors say */
    bool no_head;         /* the model is a decoder without a head, and gives no logits */
    struct hparams_embed embed;
};

/* Returns the window of one layer; 0: none. */
static inline uint32_t hparams_window(const struct hparams *hp, uint32_t i_layer)
{
    return hp->layers[i_layer].kind == LAYER_ATTENTION ? hp->window : 0;
}

/* Returns the row that the layer that predicts further tokens has in tables of layers. It is not
 * row n_layers, because tables of weights have the weights outside the layers there. */
static inline uint32_t hparams_predict_row(const struct hparams *hp)
{
    return hp->n_layers + 1;
}

/* Returns the number that a row of these tables has in names of tensors. */
static inline uint32_t hparams_row_number(const struct hparams *hp, uint32_t i_row)
{
    return i_row > hp->n_layers ? i_row - 1 : i_row;
}

static inline void hparams_set_full(struct hparams *hp, uint32_t i_layer)
{
    hp->layers[i_layer].kind = LAYER_FULL;
}

/* Return the values of one layer. */
static inline uint32_t hparams_n_heads(const struct hparams *hp, uint32_t i_layer)
{
    return hp->layers[i_layer].n_heads > 0 ? hp->layers[i_layer].n_heads : hp->n_heads;
}

static inline uint32_t hparams_n_kv_heads(const struct hparams *hp, uint32_t i_layer)
{
    return hp->layers[i_layer].n_kv_heads > 0 ? hp->layers[i_layer].n_kv_heads : hp->n_kv_heads;
}

static inline uint32_t hparams_head_dim(const struct hparams *hp, uint32_t i_layer)
{
    return hp->layers[i_layer].head_dim > 0 ? hp->layers[i_layer].head_dim : hp->head_dim;
}

static inline uint32_t hparams_n_ff(const struct hparams *hp, uint32_t i_layer)
{
    return hp->layers[i_layer].n_ff > 0 ? hp->layers[i_layer].n_ff : hp->n_ff;
}

/* Checks all values. -EBADMSG: a value is invalid; the message names it. */
int hparams_check(const struct hparams *hp, struct inf_err *reterr);
/* Compares the settings of the same model in two files. Returns the name of a setting that differs;
 * NULL: there is none. Settings that all files have are not compared. */
const char *hparams_difference(const struct hparams *a, const struct hparams *b);
